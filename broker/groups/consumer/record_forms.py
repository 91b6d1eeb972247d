"""Members, assignments and patterns as records of `__consumer_offsets`, and back. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from broker.groups.consumer.group import ResolvedRegex
from broker.groups.consumer.member import (
    UNKNOWN_EPOCH,
    Assignment,
    ClassicSession,
    Member,
    MemberState,
    Owned,
)
from broker.groups.records.consumer_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from broker.kafka_codec import codec


class MetadataFields(NamedTuple):
    """The fields of a member that its metadata record holds."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    names: frozenset[str]
    regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicSession | None


def metadata_fields(member: Member) -> MetadataFields:
    return MetadataFields(*(getattr(member, name) for name in MetadataFields._fields))


def metadata_value(member: Member) -> ConsumerGroupMemberMetadataValue:
    classic = member.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.names),
        subscribed_topic_regex=member.regex or "",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
        ),
    )


def with_metadata(member: Member, value: ConsumerGroupMemberMetadataValue) -> Member:
    classic = value.classic_member_metadata
    names = frozenset(value.subscribed_topic_names)
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        names=member.names if names == member.names else names,
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicSession(
            classic.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
        ),
    )


def current_value(member: Member) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_rows(member.assigned),
        partitions_pending_revocation=_rows(member.revoking),
    )


def with_current(member: Member, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=_state(value.state),
        assigned=_owned(value.assigned_partitions),
        revoking=_owned(value.partitions_pending_revocation),
    )


def target_value(target: Assignment) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)
        ]
    )


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> dict[str, frozenset[int]]:
    return {row.topic_id: frozenset(row.partitions) for row in value.topic_partitions if row.partitions}


def regex_value(resolved: ResolvedRegex) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )


def regex_of(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


def _state(number: int) -> MemberState:
    """A state of a later release is read as the one that is careful: the member gives up before it gets."""
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNREVOKED_PARTITIONS


def _rows(owned: Owned) -> list[CurrentTopicPartitions]:
    rows: list[CurrentTopicPartitions] = []
    for topic_id in sorted(owned):
        partitions = sorted(owned[topic_id])
        epochs = [owned[topic_id][partition] for partition in partitions]
        rows.append(CurrentTopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs))
    return rows


def _owned(rows: list[CurrentTopicPartitions]) -> dict[str, dict[int, int]]:
    owned: dict[str, dict[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [UNKNOWN_EPOCH] * len(row.partitions)
        if row.partitions:
            owned[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
    return owned


def metadata_bytes(member: Member) -> int:
    """The size of its metadata record's value."""
    return sum(map(len, codec.encode(metadata_value(member), 0)))
