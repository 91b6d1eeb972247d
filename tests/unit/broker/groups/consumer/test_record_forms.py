"""Members as records: as Kafka writes them, and what it may have written is read."""

from __future__ import annotations

from broker.groups.consumer import record_forms
from broker.groups.consumer.member import ClassicSession, Member, MemberState
from broker.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    CurrentTopicPartitions,
)
from broker.groups.records.record_codec import decode_group_record, encode_group_record

MEMBER = Member(
    "m",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/1.2.3.4",
    names=frozenset({"b", "a"}),
    regex="x.*",
    rebalance_timeout_ms=7,
    server_assignor="range",
    classic=ClassicSession(9, (("range", b"1"),)),
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={"0" * 21 + "A": {2: 3, 1: 5}},
    revoking={"0" * 21 + "Q": {0: 4}},
)


def test_a_member_comes_back_from_its_two_records() -> None:
    metadata = decode_group_record(
        *encode_group_record(
            ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), record_forms.metadata_value(MEMBER)
        )
    )
    current = decode_group_record(
        *encode_group_record(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), record_forms.current_value(MEMBER)
        )
    )
    assert metadata is not None and current is not None
    for first, second in (
        (record_forms.with_metadata, record_forms.with_current),
        (record_forms.with_current, record_forms.with_metadata),
    ):
        values = {record_forms.with_metadata: metadata[1], record_forms.with_current: current[1]}
        assert second(first(Member("m"), values[first]), values[second]) == MEMBER


def test_states_have_kafkas_numbers() -> None:
    """As a log of Kafka 4.3 has them."""
    assert [(state.name, state.value) for state in MemberState] == [
        ("STABLE", 0),
        ("UNREVOKED_PARTITIONS", 1),
        ("UNRELEASED_PARTITIONS", 2),
    ]


def test_a_record_without_epochs_and_one_of_a_later_state_are_read() -> None:
    """Kafka before 4.3 wrote no epochs of partitions."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=127,
        assigned_partitions=[CurrentTopicPartitions(topic_id="t", partitions=[1, 2])],
    )
    member = record_forms.with_current(Member("m"), value)
    assert member.assigned == {"t": {1: 0, 2: 0}}
    assert member.state is MemberState.UNREVOKED_PARTITIONS
