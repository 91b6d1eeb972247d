"""A party waits with a read if its last one of that API took long, and others do not."""

from __future__ import annotations

from broker.load.long_reads import HEARTBEAT, READS, REMEMBERED_MAX, LongReads
from broker.load.long_work import PIECE_NS
from broker.network.dispatcher import OF_RECORDS
from penstock.messages.apis import APIS


def test_the_last_one_of_a_party_counts() -> None:
    reads = LongReads()
    reads.took("ListGroups", "User:anna", PIECE_NS)
    assert reads.is_long("ListGroups", "User:anna")
    assert not reads.is_long("ListGroups", "User:bob") and not reads.is_long("DescribeAcls", "User:anna")
    reads.took("ListGroups", "User:anna", PIECE_NS - 1)
    assert not reads.is_long("ListGroups", "User:anna")


def test_heartbeats_and_committed_offsets_wait_too() -> None:
    """A new pattern looks at all topics, and a group may have committed thousands of offsets."""
    reads = LongReads()
    for api in ("ConsumerGroupHeartbeat", "OffsetFetch"):
        reads.took(api, "User:anna", 50 * PIECE_NS)
        assert reads.is_long(api, "User:anna") and not reads.is_long(api, "User:bob")


def test_what_changes_something_keeps_its_order() -> None:
    reads = LongReads()
    for api in ("CreateTopics", "OffsetCommit", "Produce", "FetchConsumer"):
        reads.took(api, "User:anna", 100 * PIECE_NS)
        assert not reads.is_long(api, "User:anna")
    assert {api.name for api in APIS.values()} >= READS >= {HEARTBEAT} and not READS & OF_RECORDS


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    reads = LongReads()
    for number in range(REMEMBERED_MAX + 1):
        reads.took("ListGroups", f"User:{number}", PIECE_NS)
    assert not reads.is_long("ListGroups", "User:0") and reads.is_long("ListGroups", "User:1")
    assert repr(reads) == f"LongReads({REMEMBERED_MAX} remembered)"
