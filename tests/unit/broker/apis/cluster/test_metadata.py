"""The metadata answer, from a controller's image to a client's values."""

from __future__ import annotations

from broker.apis.cluster.metadata import MetadataApi
from broker.apis.cluster.topic_views import TopicViews
from broker.network.request_channel import Request
from penstock.messages.metadata import MetadataRequest, TopicInfo
from penstock.messages.nodes.brokers import HostedReplicas
from penstock.types import Endpoint, ListenerEndpoint
from tests.support.machine import NOW_NS
from tests.support.received import as_received
from tests.support.sinks import CALLER, Sink
from tests.unit.metadata.harness import Cluster


def asked(cluster: Cluster, body: MetadataRequest) -> tuple[TopicInfo, ...]:
    request = Request("Metadata", body, Sink(), CALLER, NOW_NS)
    MetadataApi("cluster-1", lambda: cluster.image, lambda: 1, TopicViews(1, lambda *_: "")).handle(request, body)
    return as_received(request).topics


def test_log_dirs_of_the_replicas_are_told_to_those_who_ask_for_them() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b"))
    cluster.start(2, log_dirs=("x",))
    topic_id = cluster.create("t", partitions=2, replication_factor=2).topic_id
    cluster.assign(1, HostedReplicas(topic_id, (0,), "b"))
    for names in (None, ("t",)):
        (topic,) = asked(cluster, MetadataRequest(names, include_log_dirs=True))
        known = [dict(zip(p.replicas, p.log_dirs, strict=True)) for p in topic.partitions]
        assert known == [{1: "b", 2: "x"}, {1: "", 2: "x"}]
        (topic,) = asked(cluster, MetadataRequest(names))
        assert [p.log_dirs for p in topic.partitions] == [(), ()]


def test_no_log_dirs_are_told_where_none_is_known() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b"))
    cluster.create("t")
    (topic,) = asked(cluster, MetadataRequest(None, include_log_dirs=True))
    assert topic.partitions[0].log_dirs == ()


def test_a_view_is_made_once_until_its_topic_or_a_broker_changes() -> None:
    cluster, views = Cluster(2), TopicViews(1, lambda *_: "")
    for name in ("a", "b"):
        cluster.create(name, replication_factor=2)

    def viewed(name: str) -> TopicInfo:
        image = cluster.image
        return views.view(image, views.at("BROKER", image), image.topics_by_name[name])

    a, b = viewed("a"), viewed("b")
    assert viewed("a") is a and viewed("b") is b
    cluster.configure("a", {"retention.ms": "1"})
    assert viewed("a").config == {"retention.ms": "1"} and viewed("b") is b
    cluster.let_die(2)
    assert viewed("b") is not b and viewed("b").partitions[0].offline_replicas == (2,)


def test_offline_replicas_are_those_out_of_reach_of_the_listeners_clients() -> None:
    cluster = Cluster()
    cluster.start(1, listeners=(ListenerEndpoint("OUTSIDE", Endpoint("outside-1", 1)),))
    cluster.start(2)
    cluster.start(3, log_dirs=("x",))
    cluster.create("t", replication_factor=3)
    views = TopicViews(1, lambda *_: "")

    def offline(listener: str) -> tuple[int, ...]:
        image = cluster.image
        (partition,) = views.view(image, views.at(listener, image), image.topics_by_name["t"]).partitions
        return tuple(sorted(partition.offline_replicas))

    assert (offline("BROKER"), offline("OUTSIDE"), offline("ELSEWHERE")) == ((), (2, 3), (1, 2, 3))
    cluster.heartbeat(3, offline=("x",))
    assert (offline("BROKER"), offline("OUTSIDE")) == ((3,), (2, 3))


def test_views_of_deleted_topics_are_forgotten() -> None:
    cluster, views = Cluster(1), TopicViews(1, lambda *_: "")
    for number in range(5):
        cluster.create(f"t{number}")
        image = cluster.image
        at = views.at("BROKER", image)
        for topic in image.topics_by_id.values():
            views.view(image, at, topic)
        cluster.delete(f"t{number}")
    assert len(at.views) == 1
