"""The transactions of one log: what is open, undecided and aborted, and which batches and markers a leader refuses."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from penstock.errors import (
    ApiError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    KafkaStorageError,
    MessageTooLargeError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from storage.append.append_info import AppendInfo
from storage.append.append_origin import COORDINATOR
from storage.log_config import DAY_MS
from storage.segment.transaction_index import AbortedRange
from tests.support.producer_node import ME, Node, placed, sent
from tests.support.storage import NOW_MS, batch

NEVER = 10**9


def of_transaction(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = ME) -> bytes:
    return build_batch(
        [b"value-00"] * count,
        timestamps_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def marker_of(
    is_committed: bool = True, *, epoch: int = 0, coordinator_epoch: int = 3, producer_id: int = ME
) -> Marker:
    return Marker(producer_id, epoch, is_committed, coordinator_epoch)


def write(node: Node, sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = ME) -> AppendInfo:
    records = of_transaction(sequence, count, epoch=epoch, producer_id=producer_id)
    return node.log.append.as_leader(records, 0, NOW_MS)


def end(node: Node, marker: Marker, version: int = 1) -> AppendInfo:
    """As the leader does it."""
    again = node.log.transactions.answer_marker(marker, version)
    return again or node.log.append.as_leader(build_marker(marker, NOW_MS), 0, NOW_MS, COORDINATOR)


def undecided(node: Node, high_watermark: int = NEVER) -> int | None:
    return node.log.transactions.first_undecided(high_watermark)


# -- what readers are told ---------------------------------------------------------------------------------------------


def test_a_transaction_is_undecided_until_its_marker_is_below_the_high_watermark() -> None:
    node = Node()
    node.log.append.as_leader(batch(b"plain"), 0, NOW_MS)
    assert undecided(node) is None
    write(node, 0, 2)
    write(node, 2)
    assert node.log.transactions.open_of(ME) == 1 and node.log.transactions.is_open(ME, 0)
    assert not node.log.transactions.is_open(ME, 1) and node.log.transactions.open_of(8) is None

    assert end(node, marker_of()).first_offset == 4

    assert node.log.transactions.open_of(ME) is None
    assert [undecided(node, high) for high in (2, 4, 5)] == [1, 1, None]
    assert node.log.transactions.aborted(0, NEVER) == []


def test_the_oldest_undecided_transaction_counts() -> None:
    node = Node()
    for producer_id in (1, 2, 3):
        write(node, 0, producer_id=producer_id)
    end(node, marker_of(producer_id=2))
    assert undecided(node) == 0
    end(node, marker_of(producer_id=1))

    assert [undecided(node, high) for high in (4, 5)] == [0, 2], "3 is open"
    end(node, marker_of(producer_id=3))
    assert [undecided(node, high) for high in (5, 6)] == [2, None]


def test_an_aborted_transaction_is_told_to_readers_of_a_range_that_it_overlaps() -> None:
    node = Node()
    write(node, 0, 2)
    write(node, 0, producer_id=8)
    end(node, marker_of(False))
    end(node, marker_of(False, producer_id=8))
    write(node, 2)
    end(node, marker_of())
    mine, others = AbortedRange(ME, 0, 3), AbortedRange(8, 2, 4)

    aborted = node.log.transactions.aborted
    assert aborted(0, NEVER) == [mine, others]
    assert (aborted(0, 1), aborted(0, 2), aborted(1, 3)) == ([mine], [mine], [mine, others])
    assert (aborted(4, 5), aborted(5, NEVER)) == ([others], [])


# -- what a leader refuses ---------------------------------------------------------------------------------------------


def test_with_version_2_a_marker_gives_the_next_epoch_which_begins_with_sequence_0() -> None:
    node = Node()
    write(node, 0, 3)
    end(node, marker_of(epoch=1), 2)

    for sequence, epoch, error in ((3, 0, InvalidProducerEpochError), (3, 1, OutOfOrderSequenceError)):
        with pytest.raises(error):
            write(node, sequence, epoch=epoch)
    assert write(node, 0, epoch=1).first_offset == 4


def test_with_version_1_the_sequence_goes_on_in_the_next_transaction() -> None:
    node = Node()
    write(node, 0, 3)
    end(node, marker_of())

    assert write(node, 0, 3).is_duplicate and undecided(node) is None
    assert write(node, 3).first_offset == 4


def test_a_marker_of_a_producer_that_wrote_nothing_here_fences_its_lower_epochs() -> None:
    node = Node()
    end(node, marker_of(False, epoch=2))

    with pytest.raises(InvalidProducerEpochError):
        write(node, 0, epoch=1)
    assert node.log.transactions.aborted(0, NEVER) == [] and undecided(node, 0) is None
    write(node, 0, epoch=2)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (sent(1), InvalidTxnStateError),
        (of_transaction(0, epoch=1), InvalidTxnStateError),
        (of_transaction(2), OutOfOrderSequenceError),
        (build_batch([b"v"], timestamps_ms=NOW_MS, is_transactional=True), InvalidRecordError),
        (
            build_batch([b"v"], timestamps_ms=NOW_MS, is_transactional=True, producer_id=ME, producer_epoch=0),
            InvalidRecordError,
        ),
        (build_marker(marker_of(), NOW_MS), InvalidRecordError),
    ],
)
def test_a_refused_batch_leaves_the_transaction_open(records: bytes, error: type[ApiError]) -> None:
    node = Node()
    write(node, 0)
    with pytest.raises(error):
        node.log.append.as_leader(records, 0, NOW_MS)

    assert node.log.transactions.open_of(ME) == 0 and node.log.log_end_offset == 1
    write(node, 1)


def test_a_marker_that_is_there_is_not_written_again() -> None:
    node = Node()
    write(node, 0)
    first = end(node, marker_of(epoch=1), 2)

    again = end(node, marker_of(epoch=1), 2)

    assert again.is_duplicate and again.last_offset == first.last_offset
    moved = end(node, marker_of(epoch=1, coordinator_epoch=4), 2)
    assert not moved.is_duplicate, "the new coordinator's epoch must be known"
    with pytest.raises(TransactionCoordinatorFencedError):
        end(node, marker_of(epoch=1), 2)


def test_with_version_2_a_late_marker_does_not_end_the_next_transaction() -> None:
    node = Node()
    write(node, 0)
    end(node, marker_of(epoch=1), 2)
    newest = write(node, 0, epoch=1)

    late = end(node, marker_of(epoch=1), 2)

    assert late.is_duplicate and late.last_offset == newest.last_offset
    assert node.log.transactions.is_open(ME, 1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_that_the_log_is_past_counts_as_written_with_the_producers_newest_batch(version: int) -> None:
    """Refused, it would be asked for as long as the producer is known, and its transaction would have no end."""
    node = Node()
    node.log.append.as_leader(sent(0), 0, NOW_MS)
    newer = build_batch([b"v"], timestamps_ms=NOW_MS, producer_id=ME, producer_epoch=9, base_sequence=0)
    at = node.log.append.as_leader(newer, 0, NOW_MS).last_offset

    past = end(node, marker_of(False, epoch=1), version)

    assert past.is_duplicate and past.last_offset == at and node.log.log_end_offset == at + 1
    with pytest.raises(InvalidProducerEpochError):
        node.log.append.as_leader(build_marker(marker_of(epoch=1), NOW_MS), 0, NOW_MS, COORDINATOR)


def test_a_marker_is_taken_whatever_the_largest_batch_may_be() -> None:
    node = Node()
    write(node, 0)
    node.log.update_config(replace(node.log.config, max_message_bytes=1))

    end(node, marker_of())

    assert undecided(node) is None
    with pytest.raises(MessageTooLargeError):
        write(node, 1)


@pytest.mark.parametrize(
    ("marker", "error"),
    [
        (marker_of(epoch=0), InvalidProducerEpochError),
        (marker_of(epoch=1, coordinator_epoch=2), TransactionCoordinatorFencedError),
    ],
)
def test_an_append_of_a_coordinator_is_judged_as_well(marker: Marker, error: type[ApiError]) -> None:
    node = Node()
    end(node, marker_of(epoch=1))
    with pytest.raises(error):
        node.log.append.as_leader(build_marker(marker, NOW_MS), 0, NOW_MS, COORDINATOR)
    with pytest.raises(InvalidRecordError, match="is no marker"):
        records = build_batch(
            [b""], timestamps_ms=0, is_control=True, is_transactional=True, producer_id=ME, producer_epoch=1
        )
        node.log.append.as_leader(records, 0, NOW_MS, COORDINATOR)
    assert node.log.log_end_offset == 1


def test_a_coordinators_transactional_batch_has_no_sequence() -> None:
    node = Node()
    records = build_batch([b"v"], timestamps_ms=NOW_MS, is_transactional=True, producer_id=ME, producer_epoch=1)
    node.log.append.as_leader(records + records + batch(b"plain"), 0, NOW_MS, COORDINATOR)
    assert node.log.transactions.open_of(ME) == 0 and node.known() == []

    old = build_batch([b"v"], timestamps_ms=NOW_MS, is_transactional=True, producer_id=ME, producer_epoch=0)
    with pytest.raises(InvalidProducerEpochError):
        node.log.append.as_leader(old, 0, NOW_MS, COORDINATOR)
    marker = build_marker(marker_of(False, epoch=1), NOW_MS)
    node.log.append.as_leader(batch(b"plain") + marker, 0, NOW_MS, COORDINATOR)
    assert node.log.transactions.aborted(0, NEVER) == [AbortedRange(ME, 0, 4)]


# -- followers, failures, silence --------------------------------------------------------------------------------------


def test_a_follower_takes_markers_as_they_are() -> None:
    node = Node()
    pieces = [
        of_transaction(0, epoch=5),
        of_transaction(0, producer_id=8),
        build_marker(marker_of(False, epoch=4, coordinator_epoch=1), NOW_MS),
        build_marker(marker_of(epoch=3, coordinator_epoch=0), NOW_MS),
        batch(b"plain"),
    ]
    node.log.append.as_follower(b"".join(placed(records, at) for at, records in enumerate(pieces)))

    assert node.log.transactions.aborted(0, NEVER) == [AbortedRange(ME, 0, 2)]
    assert undecided(node) == 1 and node.log.transactions.open_of(8) == 1


def test_an_append_that_fails_opens_and_ends_nothing() -> None:
    node = Node()
    write(node, 0, producer_id=8)
    write(node, 0)
    pieces = [
        build_marker(marker_of(False), NOW_MS),
        of_transaction(1),
        build_marker(marker_of(False, producer_id=8), NOW_MS),
        of_transaction(0, producer_id=9),
        *(sent(n, producer_id=10) for n in range(8)),
    ]
    records = b"".join(placed(records, at) for at, records in enumerate(pieces, 2))
    node.fs.fail_at[node.fs.operations + 5] = errno.ENOSPC
    with pytest.raises(KafkaStorageError):
        node.log.append.as_follower(records)

    assert node.log.log_end_offset == 2 and node.log.transactions.aborted(0, NEVER) == []
    assert (node.log.transactions.open_of(8), node.log.transactions.open_of(ME), undecided(node, 0)) == (0, 1, 0)
    node.log.append.as_follower(records)
    assert (undecided(node), undecided(node, 2)) == (3, 3)
    assert node.log.transactions.aborted(0, NEVER) == [AbortedRange(ME, 1, 2), AbortedRange(8, 0, 4)]


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    node = Node(max_per_partition=2)
    write(node, 0)
    node.clock.advance(DAY_MS + 1)
    node.log.producers.forget_silent()
    assert node.log.transactions.open_of(ME) == 0
    for producer_id in (8, 9, 10):
        node.clock.advance(DAY_MS)
        node.send(0, producer_id=producer_id)

    assert list(node.log.producers.known) == [ME, 10]
    end(node, marker_of())
    node.clock.advance(DAY_MS + 1)
    node.log.producers.forget_silent()
    assert list(node.log.producers.known) == []
