"""The compiled codecs: every message of the table, every field, in both directions; and what refuses to start."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

import pytest

from metadata.controller.controller import DECISIONS
from penstock.errors import InvariantViolation, NotLeaderOrFollowerError
from penstock.messages.admin_apis import DESCRIBE_CONFIGS
from penstock.messages.api import ApiKind
from penstock.messages.apis import APIS
from penstock.messages.client_apis import CREATE_TOPICS, FETCH, METADATA
from penstock.messages.configs import ConfigSource, DescribeConfigsResponse
from penstock.messages.features import UpdateFeaturesRequest
from penstock.messages.fields import none_if, on_wire
from penstock.messages.groups.classic_protocol import HeartbeatRequest
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest, TopicIdPartitions
from penstock.messages.groups.group_apis import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from penstock.messages.metadata import MetadataRequest, MetadataResponse, PartitionInfo, TopicInfo
from penstock.messages.nodes.node_apis import ALLOCATE_PRODUCER_IDS, BROKER_HEARTBEAT, REGISTER_BROKER
from penstock.messages.topics import CreateTopicsRequest, NewTopic
from penstock.messages.voters import VOTER_REQUESTS, UnregisterControllerRequest
from penstock.pb import broker_pb2 as pb
from penstock.pb import configs_pb2, controller_pb2, quorum_pb2, replication_pb2
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint, TopicPartition
from penstock.wire.message_codec import (
    UNUSED_FIELDS,
    MessageCodec,
    codec,
    message_descriptor,
    request_codec,
    response_codec,
)
from tests.support.wire_decoders import filled

COMPILED = [api for api in APIS.values() if api.kind not in (ApiKind.STREAM, ApiKind.QUORUM)]
CODECS: dict[str, MessageCodec[Any]] = {
    one.message.DESCRIPTOR.name: one for api in COMPILED for one in (request_codec(api), response_codec(api))
}
FLAGS = (
    ("all_topics", "topics"),
    ("all_partitions", "topics"),
    ("cancel", "replicas"),
    ("same_topic_names", "subscribed_topic_names"),
    ("same_owned_partitions", "owned_partitions"),
    ("same_assignment", "assignment"),
)
"""With each the list that is empty where it is set."""


def as_sent(message: Any) -> Any:
    """The message without what no node sends: errors of drawn codes, lists beside a flag that says there is none."""
    for field_, value in message.ListFields():
        is_error = field_.message_type is not None and field_.message_type.full_name == "penstock.v1.Error"
        if is_error or f"{message.DESCRIPTOR.full_name}.{field_.name}" in UNUSED_FIELDS:
            message.ClearField(field_.name)
        elif field_.message_type is not None and not field_.message_type.GetOptions().map_entry:
            for one in value if field_.is_repeated else [value]:
                as_sent(one)
    if "standing" in message.DESCRIPTOR.fields_by_name:
        message.standing.SetInParent()
    for flag, beside in FLAGS:
        if beside in message.DESCRIPTOR.fields_by_name and getattr(message, flag, False):
            message.ClearField(beside)
    return message


def test_a_map_has_the_order_of_its_keys_whatever_its_sender_and_this_process_make_of_it() -> None:
    keys = [f"key-{number:03d}" for number in range(100)]
    shuffled = Random(7).sample(keys, len(keys))
    sent = request_codec(CREATE_TOPICS).encode(
        CreateTopicsRequest((NewTopic("t", config=dict.fromkeys(shuffled, "")),))
    )
    (topic,) = request_codec(CREATE_TOPICS).decode(sent).topics
    assert list(topic.config) == keys


@pytest.mark.parametrize("name", CODECS)
def test_a_message_is_the_same_after_it_was_a_record(name: str) -> None:
    one, random = CODECS[name], Random(name)
    for _ in range(50):
        message = as_sent(filled(random, one.message()))
        assert one.to_message(one.of_message(message)) == message
        record = one.of_message(message)
        assert one.decode(one.encode(record)) == record


def test_every_field_crosses_and_an_error_keeps_its_hint() -> None:
    error = NotLeaderOrFollowerError("gone", leader=LeaderHint(2, 7, Endpoint("h", 9), "id"))
    topic = TopicInfo(
        "t", "id", (PartitionInfo(0, -1, 3, 4, (1, 2), (1,), error, (2,), ("a", ""), (2,), (1,)),), {"k": "v"}
    )
    of_metadata = response_codec(METADATA)
    found = of_metadata.decode(of_metadata.encode(MetadataResponse("c", -1, (), (topic,), 9, 8)))
    returned = found.topics[0].partitions[0].error
    assert (
        isinstance(returned, NotLeaderOrFollowerError) and returned.leader == error.leader and str(returned) == "gone"
    )
    assert repr(found) == repr(MetadataResponse("c", -1, (), (topic,), 9, 8))


def test_no_topics_and_all_topics_are_told_apart() -> None:
    asked = request_codec(METADATA)
    assert asked.to_message(MetadataRequest(None)) == pb.MetadataRequest(all_topics=True)
    assert asked.to_message(MetadataRequest(())) == pb.MetadataRequest()
    assert asked.of_message(pb.MetadataRequest(topics=["t"], all_topics=True)) == MetadataRequest(None)


def test_an_empty_text_and_none_are_told_apart() -> None:
    asked = request_codec(HEARTBEAT)
    for instance in (None, "", "i"):
        record = HeartbeatRequest("g", 1, "m", instance)
        assert asked.decode(asked.encode(record)) == record
    assert not asked.to_message(HeartbeatRequest("g", 1, "m")).HasField("group_instance_id")


def test_no_subscription_and_the_one_of_before_are_told_apart() -> None:
    asked = request_codec(CONSUMER_GROUP_HEARTBEAT)
    first = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, subscribed_topic_names=(), owned_partitions=(TopicIdPartitions("id", (0, 1)),)
    )
    later = ConsumerGroupHeartbeatRequest("g", "m", 3)
    assert [asked.decode(asked.encode(one)) for one in (first, later)] == [first, later]


def test_an_enum_of_a_newer_node_is_unknown_and_the_rest_is_read() -> None:
    message = configs_pb2.DescribeConfigsResponse(resources=[{"configs": [{"key": "k"}]}])
    message.resources[0].configs[0].source = 99  # type: ignore[assignment]
    found: DescribeConfigsResponse = response_codec(DESCRIBE_CONFIGS).of_message(message)
    assert (found.resources[0].configs[0].name, found.resources[0].configs[0].source) == ("k", ConfigSource.UNKNOWN)


def test_the_table_has_every_method_of_the_protos_where_its_kind_says() -> None:
    methods = {
        (service.name, method.name)
        for module in (pb, controller_pb2, quorum_pb2, replication_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    table = {(api.kind.service, api.name) for api in APIS.values()}
    table |= {("Controller", api.name) for api in APIS.values() if api.kind.at_controller}
    table |= {("Replication", api.name) for api in APIS.values() if api.is_between_brokers or api is FETCH}
    assert table == methods


def test_the_controller_decides_every_api_that_is_its_own() -> None:
    asked = [api for api in APIS.values() if api.kind in (ApiKind.FORWARDED, ApiKind.CONTROLLER)]
    with_more = {api.request for api in (ALLOCATE_PRODUCER_IDS, BROKER_HEARTBEAT, REGISTER_BROKER)}
    with_more.add(UpdateFeaturesRequest)
    assert {api.request for api in asked} == DECISIONS.keys() | with_more | {
        *VOTER_REQUESTS,
        UnregisterControllerRequest,
    }


@dataclass(frozen=True)
class Voter:
    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int
    last_caught_up_ms_ago: int
    directory_id: str = ""
    endpoints: tuple[ListenerEndpoint, ...] = ()


@dataclass(frozen=True)
class Observer:
    last_caught_up_ms_ago: int
    last_fetch_ms_ago: int
    log_end_offset: int
    node_id: int
    endpoints: tuple[ListenerEndpoint, ...] = ()
    directory_id: str = ""


@dataclass(frozen=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Voter, ...]
    observers: tuple[Observer, ...]
    only_own_view: bool
    is_dynamic: bool = False


def test_two_records_may_stand_for_the_same_message_in_one() -> None:
    quorum = codec(Quorum, message_descriptor("DescribeQuorumResponse"))
    answer = Quorum(1, 2, 3, (Voter(4, 5, 6, 7),), (Observer(7, 6, 5, 4), Observer(7, 8, 9, 10)), True)
    assert quorum.decode(quorum.encode(answer)) == answer


class Shade(StrEnum):
    DARK = "dark"


@dataclass(frozen=True)
class Misses:
    host: str
    port: int
    rack: str
    fenced: bool


@dataclass(frozen=True)
class Invents(Misses):
    node_id: int
    colour: str


@dataclass(frozen=True)
class Mistakes(Misses):
    node_id: str


@dataclass(frozen=True)
class MistakesMany(Misses):
    node_id: tuple[int, ...]


@dataclass(frozen=True)
class NamesNothing(Misses):
    node_id: int = field(metadata=on_wire("id"))


@dataclass(frozen=True)
class Shades(Misses):
    node_id: Shade


@dataclass(frozen=True)
class Flagless:
    topics: tuple[str, ...] | None = field(metadata=none_if("no_such_flag"))
    all_topics: bool
    include_log_dirs: bool


@dataclass(frozen=True)
class Flattens(Misses):
    node_id: int
    where: TopicPartition


@pytest.mark.parametrize(
    ("record", "message", "named"),
    [
        (Misses, "Node", "penstock.v1.Node.node_id has no field in Misses"),
        (Invents, "Node", "penstock.v1.Node has no field colour"),
        (Mistakes, "Node", "penstock.v1.Node.node_id is no <class 'str'>"),
        (MistakesMany, "Node", "penstock.v1.Node.node_id is no tuple"),
        (NamesNothing, "Node", "penstock.v1.Node has no field id"),
        (Shades, "Node", "penstock.v1.Node.node_id is no <enum 'Shade'>"),
        (Flagless, "MetadataRequest", "penstock.v1.MetadataRequest has no field no_such_flag"),
        (Flattens, "Node", "penstock.v1.Node has no field topic"),
        (ListenerEndpoint, "Node", "penstock.v1.Node has no field name"),
    ],
)
def test_a_record_that_does_not_match_its_message_refuses_to_start(record: Any, message: str, named: str) -> None:
    with pytest.raises(InvariantViolation, match=named):
        codec(record, message_descriptor(message))
