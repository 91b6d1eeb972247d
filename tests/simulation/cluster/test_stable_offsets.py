"""Committed batches tell of last stable offsets, of aborted transactions, and of decisions."""

from __future__ import annotations

from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_records import TransactionLogKey, encode_transaction_record
from penstock.messages.transactions.listing import TransactionState
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from penstock.types import TopicPartition
from storage.segment.transaction_index import AbortedRange
from tests.simulation.cluster.stable_offsets import STATE_TOPIC, CommittedTransactions, Decisions


def at(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def data(producer_id: int, offset: int, count: int = 1) -> bytes:
    batch = build_batch(
        [b"v"] * count,
        timestamps_ms=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    return at(batch, offset)


def marker(producer_id: int, offset: int, *, is_committed: bool = True, epoch: int = 1) -> bytes:
    return at(build_marker(Marker(producer_id, epoch, is_committed, 0), 0), offset)


def state_of(state: TransactionState, epoch: int = 1) -> bytes:
    metadata = TransactionMetadata("writer", 7, epoch, 1_000, state, 0, partitions=frozenset({TopicPartition("t", 0)}))
    key, value = encode_transaction_record(TransactionLogKey(transactional_id="writer"), metadata)
    return build_batch([value], keys=[key], timestamps_ms=0)


def test_the_last_stable_offset_is_the_first_record_of_what_is_open() -> None:
    log = CommittedTransactions("t-0", None)
    batches = data(1, 0, 2), data(2, 2), marker(1, 3), data(1, 4), marker(2, 5, is_committed=False), marker(1, 6)
    found = []
    for batch, end in zip(batches, (2, 3, 4, 5, 6, 7), strict=True):
        log.take(batch)
        found.append(log.stable_end(end, 0))
    assert found == [0, 0, 2, 2, 4, 7]
    assert log.aborted == [AbortedRange(2, 2, 5)]


def test_what_is_deleted_keeps_nobody_waiting() -> None:
    log = CommittedTransactions("t-0", None)
    for batch in (data(1, 0), data(2, 1), data(1, 2)):
        log.take(batch)
    assert [log.stable_end(3, start) for start in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_a_decision_has_one_end() -> None:
    decisions = Decisions()
    coordinator = CommittedTransactions(f"{STATE_TOPIC}0", decisions)
    for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        coordinator.take(state_of(state))
    assert [text[:3] for text in decisions.wrong] == ["I69"]
    assert decisions.open() == ["writer"]


def test_a_marker_is_of_a_decision() -> None:
    decisions = Decisions()
    coordinator, log = CommittedTransactions(f"{STATE_TOPIC}0", decisions), CommittedTransactions("t-0", decisions)
    log.take(marker(7, 0))
    coordinator.take(state_of(TransactionState.PREPARE_COMMIT))  # in the same step
    decisions.check(is_whole=True)
    coordinator.take(state_of(TransactionState.COMPLETE_COMMIT))
    assert not decisions.wrong and not decisions.open()
    for wrong in (marker(7, 1, is_committed=False), marker(7, 2, epoch=2), marker(8, 3)):
        log.take(wrong)
    decisions.check(is_whole=False)
    assert not decisions.wrong
    for wrong in (marker(7, 1, is_committed=False), marker(7, 2, epoch=2), marker(8, 3)):
        log.take(wrong)
    decisions.check(is_whole=True)
    assert [text[:3] for text in decisions.wrong] == ["I69"] * 3


def test_a_decision_ends_one_transaction_of_a_log() -> None:
    """With version 1 the next one has the same epoch, and an old marker would end it."""
    decisions = Decisions()
    coordinator, log = CommittedTransactions(f"{STATE_TOPIC}0", decisions), CommittedTransactions("t-0", decisions)
    coordinator.take(state_of(TransactionState.PREPARE_COMMIT))
    for batch in (data(7, 0), marker(7, 1), marker(7, 2)):  # the second finds nothing open
        log.take(batch)
    decisions.check(is_whole=True)
    assert not decisions.wrong
    for batch in (data(7, 3), marker(7, 4)):
        log.take(batch)
    decisions.check(is_whole=True)
    assert [text[:3] for text in decisions.wrong] == ["I69"]
