"""Promises of a cluster's description: what it says of all partitions, and how often it looks at all of them."""

from __future__ import annotations

from collections.abc import ValuesView
from dataclasses import replace
from typing import cast

from broker.apis.cluster.describe_cluster import DescribeClusterApi
from broker.network.request_channel import Request
from metadata.image import MetadataImage, TopicImage
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.messages.admin_apis import DESCRIBE_CLUSTER
from penstock.messages.cluster import ClusterInfo, DescribeClusterRequest, NodeStanding, PartitionTroubleKind
from penstock.types import NO_LEADER, Endpoint, ListenerEndpoint
from penstock.wire.message_codec import response_codec
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

STANDING = NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ())


class Topics(dict[str, TopicImage]):
    """A table that counts how often it is walked."""

    walks = 0

    def values(self) -> ValuesView[str, TopicImage]:  # type: ignore[override]
        self.walks += 1
        return cast(ValuesView[str, TopicImage], super().values())


def topics(*leaders: int) -> Topics:
    partitions = {
        number: PartitionRegistration("id", number, (1, 2), (1,), leader_id, 5, 9)
        for number, leader_id in enumerate(leaders)
    }
    return Topics({"id": TopicImage("t", "id", partitions)})


def image_of(by_id: Topics, offset: int) -> MetadataImage:
    return MetadataImage(offset, topics_by_id=by_id, topics_by_name={t.name: t for t in dict.values(by_id)})


def test_every_listener_for_clients_is_named_and_the_address_is_that_of_the_clients_own() -> None:
    kafka = ListenerEndpoint("KAFKA", Endpoint("a", 9092))
    brokers = {
        1: BrokerRegistration(1, "i1", 5, "a", 9192, "", False, False, (), listeners=(kafka,)),
        2: BrokerRegistration(2, "i2", 6, "b", 9192, "", True, False, ()),
    }
    api = DescribeClusterApi("c", lambda: MetadataImage(1, brokers=brokers), lambda: 1, lambda: (STANDING, ()))
    request = Request("DescribeCluster", DescribeClusterRequest(), Sink(), CALLER._replace(listener="KAFKA"), NOW_NS)
    api.handle(request, DescribeClusterRequest())
    first, second = cast(ClusterInfo, request.response).brokers
    assert (first.host, first.port, list(map(str, first.listeners))) == (
        "a",
        9092,
        ["BROKER://a:9192", "KAFKA://a:9092"],
    )
    assert (second.host, list(map(str, second.listeners))) == ("", ["BROKER://b:9192"]), "it has no listener KAFKA"
    codec = response_codec(DESCRIBE_CLUSTER)
    assert codec.decode(codec.encode(cast(ClusterInfo, request.response))) == request.response


def test_leaders_are_counted_once_for_each_change_of_the_topics() -> None:
    healthy, ill = topics(1, 2, 1), topics(1, NO_LEADER, NO_LEADER)
    image = image_of(healthy, 1)
    api = DescribeClusterApi("c", lambda: image, lambda: 1, lambda: (STANDING, ()))

    def described() -> ClusterInfo:
        request = Request("DescribeCluster", DescribeClusterRequest(), Sink(), CALLER, NOW_NS)
        api.handle(request, DescribeClusterRequest())
        return cast(ClusterInfo, request.response)

    for offset in (1, 2, 3):  # commits that change no topic
        image = replace(image, offset=offset)
        found = described()
        assert (found.leaders, found.offline_partitions, found.metadata_offset) == ({1: 2, 2: 1}, 0, offset)
    assert healthy.walks == 1
    image = image_of(ill, 4)
    found = described()
    assert (found.leaders, found.offline_partitions) == ({1: 1}, 2)
    assert [(t.partition, t.kind) for t in found.troubles] == [
        (1, PartitionTroubleKind.OFFLINE),
        (2, PartitionTroubleKind.OFFLINE),
    ]
