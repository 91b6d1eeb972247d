"""The metadata answer, from a controller's image to a client's values."""

from __future__ import annotations

from broker.apis.metadata import MetadataApi
from broker.network.request_channel import Request
from penstock.messages.brokers import HostedReplicas
from penstock.messages.metadata import MetadataRequest, TopicInfo
from tests.support.machine import NOW_NS
from tests.support.received import as_received
from tests.support.sinks import CALLER, Sink
from tests.unit.metadata.harness import Cluster


def asked(cluster: Cluster, body: MetadataRequest) -> tuple[TopicInfo, ...]:
    request = Request("Metadata", body, Sink(), CALLER, NOW_NS)
    MetadataApi("cluster-1", lambda: cluster.image, lambda: 1, lambda *_: "").handle(request, body)
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
