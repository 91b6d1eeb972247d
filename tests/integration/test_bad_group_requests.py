"""Bad requests about groups at a real node, at both of its listeners: one exact typed error a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from broker.kafka.schemas.groups import classic, consumer, offsets
from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
    NonEmptyGroupError,
    OffsetMetadataTooLargeError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from penstock.messages.groups import classic_protocol, consumer_protocol, listing
from penstock.messages.groups import offsets as our_offsets
from penstock.testing import Cluster
from penstock.types import TopicPartition
from tests.support import both_protocols
from tests.support.both_protocols import eventually
from tests.support.kafka_socket import KafkaSocket

SESSION_MS = 1_800_000
CLASSIC, CONSUMER, STATIC = "classic", "consumer", "static-1"
STRANGER = "S" * 21 + "A"
LONG = "x" * 300


@dataclass
class Stage:
    """A node with a classic group and a consumer group of one static member each."""

    bootstrap: str
    kafka: str
    topic: str
    classic: str = ""
    """The member's id; it is in generation 1."""
    consumer: str = "C" * 21 + "A"
    epoch: int = 0

    def by_grpc(self, request: Any) -> Any:
        return both_protocols.by_grpc(self.bootstrap, request)

    def grpc_codes(self, request: Any) -> set[int]:
        return both_protocols.grpc_codes(self.bootstrap, request)

    def kafka_codes(self, request: Any) -> set[int]:
        return both_protocols.kafka_codes(self.kafka, request)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Cluster(1) as cluster:
        made = Stage(cluster.bootstrap, cluster.kafka_bootstrap, cluster.topic())
        joins = classic_protocol.JoinGroupRequest(
            CLASSIC,
            SESSION_MS,
            SESSION_MS,
            "",
            "consumer",
            (classic_protocol.JoinGroupProtocol("range", b""),),
            STATIC,
        )
        joined = eventually(lambda: made.by_grpc(joins))
        assert joined.error is None and joined.generation_id == 1
        made.classic = joined.member_id
        own = classic_protocol.MemberAssignment(made.classic, b"")
        made.by_grpc(classic_protocol.SyncGroupRequest(CLASSIC, 1, made.classic, STATIC, assignments=(own,)))
        heartbeat = consumer_protocol.ConsumerGroupHeartbeatRequest(
            CONSUMER,
            made.consumer,
            0,
            STATIC,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=(made.topic,),
            owned_partitions=(),
        )
        made.epoch = eventually(lambda: made.by_grpc(heartbeat)).member_epoch
        yield made


class Row(NamedTuple):
    """The request at each listener, and the error that it gets at both."""

    ours: Callable[[Stage], Any]
    kafkas: Callable[[Stage], Any]
    error: type[ApiError]


def heartbeat(error: type[ApiError], **given: Any) -> Row:
    def asked(stage: Stage) -> dict[str, Any]:
        whole = {"group_id": CLASSIC, "generation_id": 1, "member_id": stage.classic, "group_instance_id": None}
        return whole | given

    return Row(
        lambda stage: classic_protocol.HeartbeatRequest(**asked(stage)),
        lambda stage: classic.HeartbeatRequest(**asked(stage)),
        error,
    )


def join(error: type[ApiError], **given: Any) -> Row:
    asked = {
        "group_id": CLASSIC,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": ("range",),
    } | given
    names = asked.pop("protocols")
    ours = tuple(classic_protocol.JoinGroupProtocol(name, b"") for name in names)
    theirs = [classic.JoinGroupRequestProtocol(name=name, metadata=b"") for name in names]
    return Row(
        lambda stage: classic_protocol.JoinGroupRequest(**asked, protocols=ours),
        lambda stage: classic.JoinGroupRequest(**asked, protocols=theirs),
        error,
    )


def sync(error: type[ApiError], **given: Any) -> Row:
    def asked(stage: Stage) -> dict[str, Any]:
        whole = {"group_id": CLASSIC, "generation_id": 1, "member_id": stage.classic, "group_instance_id": STATIC}
        return whole | {"protocol_type": "consumer", "protocol_name": "range"} | given

    return Row(
        lambda stage: classic_protocol.SyncGroupRequest(**asked(stage)),
        lambda stage: classic.SyncGroupRequest(**asked(stage)),
        error,
    )


def member(error: type[ApiError], **given: Any) -> Row:
    """A heartbeat of the consumer protocol: a whole one, as of a member that joins."""

    def asked(stage: Stage) -> dict[str, Any]:
        whole = {"group_id": CONSUMER, "member_id": stage.consumer, "member_epoch": 0, "rebalance_timeout_ms": 10_000}
        return whole | given

    regex = "subscribed_topic_regex" in given
    return Row(
        lambda stage: consumer_protocol.ConsumerGroupHeartbeatRequest(
            **asked(stage), subscribed_topic_names=None if regex else (stage.topic,), owned_partitions=()
        ),
        lambda stage: consumer.ConsumerGroupHeartbeatRequest(
            **asked(stage), subscribed_topic_names=None if regex else [stage.topic], topic_partitions=[]
        ),
        error,
    )


def commit(error: type[ApiError], *, partition: int = 0, metadata: str = "", **given: Any) -> Row:
    def ours(stage: Stage) -> Any:
        whole = {"group_id": CLASSIC, "member_id": stage.classic, "member_epoch": 1} | given
        part = our_offsets.OffsetCommitPartition(TopicPartition(stage.topic, partition), 1, -1, metadata)
        return our_offsets.OffsetCommitRequest(**whole, partitions=(part,))

    def theirs(stage: Stage) -> Any:
        whole = {"group_id": CLASSIC, "member_id": stage.classic, "member_epoch": 1} | given
        part = offsets.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata=metadata
        )
        epoch = whole.pop("member_epoch")
        topic_id = topic_id_of(stage)
        topics = [offsets.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[part])]
        return offsets.OffsetCommitRequest(**whole, generation_id_or_member_epoch=epoch, topics=topics)

    return Row(ours, theirs, error)


def topic_id_of(stage: Stage) -> str:
    from penstock import Admin

    with Admin(stage.bootstrap) as admin:
        return admin.describe_topic(stage.topic).topic_id


def in_consumer_group(stage: Stage) -> dict[str, Any]:
    return {"group_id": CONSUMER, "member_id": stage.consumer}


ROWS: dict[str, Row] = {
    "a heartbeat of a stranger": heartbeat(UnknownMemberIdError, member_id="stranger"),
    "a heartbeat in a group that there is not": heartbeat(UnknownMemberIdError, group_id="nobody's"),
    "a heartbeat of an old generation": heartbeat(IllegalGenerationError, generation_id=0),
    "a heartbeat of a later generation": heartbeat(IllegalGenerationError, generation_id=2),
    "a heartbeat of a fenced instance": heartbeat(FencedInstanceIdError, member_id="another", group_instance_id=STATIC),
    "a join of another protocol type": join(InconsistentGroupProtocolError, protocol_type="connect"),
    "a join with an assignor that no other member has": join(
        InconsistentGroupProtocolError, protocols=("strange",), group_instance_id="static-2"
    ),
    "a join without an assignor": join(InconsistentGroupProtocolError, protocols=()),
    "a join with a session of a millisecond": join(InvalidSessionTimeoutError, session_timeout_ms=1),
    "a join with a session of a day": join(InvalidSessionTimeoutError, session_timeout_ms=86_400_000),
    "a join of a member that there is not": join(UnknownMemberIdError, member_id="stranger"),
    "a sync of another protocol": sync(InconsistentGroupProtocolError, protocol_name="strange"),
    "a sync of an old generation": sync(IllegalGenerationError, generation_id=0),
    "a heartbeat of a stranger with an epoch": member(UnknownMemberIdError, member_id=STRANGER, member_epoch=5),
    "a heartbeat of an epoch that was not reached": member(FencedMemberEpochError, member_epoch=77),
    "a heartbeat of an epoch that there cannot be": member(InvalidRequestError, member_epoch=-3),
    "a join without a member id": member(InvalidRequestError, member_id=""),
    "a join as an instance that is there": member(UnreleasedInstanceIdError, member_id=STRANGER, instance_id=STATIC),
    "a join with an assignor that the coordinator has not": member(
        UnsupportedAssignorError, member_id=STRANGER, server_assignor="strange"
    ),
    "a join by a pattern that is none": member(
        InvalidRegularExpressionError, member_id=STRANGER, subscribed_topic_regex="("
    ),
    "a commit of a stranger": commit(UnknownMemberIdError, member_id="stranger"),
    "a commit of no member while there are members": commit(UnknownMemberIdError, member_id="", member_epoch=-1),
    "a commit of an old generation": commit(IllegalGenerationError, member_epoch=0),
    "a commit of a fenced instance": commit(FencedInstanceIdError, member_id="another", group_instance_id=STATIC),
    "a commit in a group that there is not": commit(GroupIdNotFoundError, group_id="nobody's"),
    "a commit with a text that is too long": commit(OffsetMetadataTooLargeError, metadata="x" * 5_000),
    "a commit of a partition that there is not": commit(UnknownTopicOrPartitionError, partition=9),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_request_gets_its_own_error_by_both_protocols(stage: Stage, name: str) -> None:
    row = ROWS[name]
    assert stage.grpc_codes(row.ours(stage)) == {row.error.code}
    assert stage.kafka_codes(row.kafkas(stage)) == {row.error.code}


def test_a_commit_of_an_epoch_that_is_over(stage: Stage) -> None:
    row = commit(StaleMemberEpochError, **in_consumer_group(stage), member_epoch=stage.epoch - 1)
    assert stage.grpc_codes(row.ours(stage)) == {StaleMemberEpochError.code}
    assert stage.kafka_codes(row.kafkas(stage)) == {StaleMemberEpochError.code}


@pytest.mark.parametrize("group_id", ["", LONG], ids=["empty", "300 characters"])
@pytest.mark.parametrize(
    "make",
    [heartbeat, join, sync, member, commit],
    ids=["heartbeat", "join", "sync", "consumer heartbeat", "commit"],
)
def test_an_id_that_no_group_can_have_is_refused(stage: Stage, group_id: str, make: Callable[..., Row]) -> None:
    row = make(InvalidGroupIdError, group_id=group_id)
    assert stage.grpc_codes(row.ours(stage)) == {InvalidGroupIdError.code}
    assert stage.kafka_codes(row.kafkas(stage)) == {InvalidGroupIdError.code}


def test_of_many_groups_only_those_with_a_bad_id_or_members_are_refused(stage: Stage) -> None:
    names = ("", LONG, "nobody's", CLASSIC)
    described = stage.by_grpc(listing.DescribeGroupsRequest(names)).groups
    deleted = stage.by_grpc(listing.DeleteGroupsRequest(names)).groups
    bad, missing = InvalidGroupIdError.code, GroupIdNotFoundError.code
    assert [one.error.code if one.error else 0 for one in described] == [bad, bad, missing, 0]
    assert [one.error.code if one.error else 0 for one in deleted] == [bad, bad, missing, NonEmptyGroupError.code]
    with KafkaSocket(stage.kafka) as socket:
        answer = socket.ask(classic.DescribeGroupsRequest(groups=list(names)), 6, classic.DescribeGroupsResponse)
        gone = socket.ask(classic.DeleteGroupsRequest(groups_names=list(names)), 2, classic.DeleteGroupsResponse)
    assert [one.error_code for one in answer.groups] == [bad, bad, missing, 0]
    assert [one.error_code for one in gone.results] == [bad, bad, missing, NonEmptyGroupError.code]


def test_after_all_of_this_the_members_are_still_there(stage: Stage) -> None:
    assert stage.grpc_codes(heartbeat(ApiError).ours(stage)) == {0}
    again = consumer_protocol.ConsumerGroupHeartbeatRequest(CONSUMER, stage.consumer, stage.epoch)
    assert stage.by_grpc(again).member_epoch == stage.epoch
