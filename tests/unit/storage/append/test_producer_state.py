"""The rules of idempotent producers, one by one; all of them together are in tests/property/storage."""

from __future__ import annotations

import pytest

from penstock.errors import ApiError, InvalidProducerEpochError, OutOfOrderSequenceError, UnknownProducerIdError
from penstock.record.batch import BatchHeader, read_header
from penstock.record.builder import build_batch
from storage.append.producer_rules import must_fit
from storage.append.producer_state import SEQUENCES, WINDOW, KnownProducers, TakenBatch

ME = 7
NOW_MS = 1_700_000_000_000


def header(sequence: int, count: int = 1, *, epoch: int = 0, at: int = 0, producer_id: int = ME) -> BatchHeader:
    values = [b"v"] * count
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, "base_offset": at}
    return read_header(build_batch(values, timestamps_ms=NOW_MS, **fields))  # type: ignore[arg-type]


def taken(*headers: BatchHeader) -> KnownProducers:
    known = KnownProducers()
    for one in headers:
        known.take(one, NOW_MS)
    return known


def answer(known: KnownProducers, one: BatchHeader) -> TakenBatch | type[ApiError] | None:
    """The first append of a duplicate, the type of a refusal, or None for a batch that fits."""
    producer = known.get(one.producer_id)
    if producer is not None and (batch := producer.has(one)) is not None:
        return batch
    try:
        must_fit(one, producer)
    except ApiError as refusal:
        return type(refusal)
    return None


def test_an_unknown_producer_begins_with_sequence_0() -> None:
    assert answer(KnownProducers(), header(0)) is None
    assert answer(KnownProducers(), header(0, epoch=4)) is None
    assert answer(KnownProducers(), header(1)) is UnknownProducerIdError


def test_a_batch_follows_the_last_sequence() -> None:
    known = taken(header(0, 3))

    assert answer(known, header(3)) is None
    assert answer(known, header(2)) is OutOfOrderSequenceError
    assert answer(known, header(4)) is OutOfOrderSequenceError


def test_a_higher_epoch_begins_with_sequence_0_and_ends_the_lower_one() -> None:
    known = taken(header(0, 3))

    assert answer(known, header(3, epoch=1)) is OutOfOrderSequenceError
    assert answer(known, header(0, 3, epoch=1)) is None
    known.take(header(0, epoch=1, at=3), NOW_MS)
    assert answer(known, header(3)) is InvalidProducerEpochError
    assert answer(known, header(0, 3)) is InvalidProducerEpochError, "not even for what it wrote"
    assert answer(known, header(1, epoch=1)) is None


def test_the_last_five_batches_are_duplicates_and_older_ones_out_of_order() -> None:
    known = taken(*(header(n, at=100 + n) for n in range(WINDOW + 1)))

    for n in range(1, WINDOW + 1):
        assert answer(known, header(n)) == TakenBatch(n, 100 + n, 0, -1)
    assert answer(known, header(0)) is OutOfOrderSequenceError
    assert answer(known, header(1, 2)) is OutOfOrderSequenceError, "another batch that begins with the same sequence"


def test_after_the_last_sequence_comes_0() -> None:
    known = taken(header(SEQUENCES - 3, 2))
    assert answer(known, header(SEQUENCES - 1, 3)) is None
    known.take(header(SEQUENCES - 1, 3, at=2), NOW_MS)

    assert answer(known, header(SEQUENCES - 1, 3)) == TakenBatch(SEQUENCES - 1, 2, 2, -1)
    assert answer(known, header(2)) is None
    assert answer(known, header(0)) is OutOfOrderSequenceError


def test_a_producer_that_begins_anew_with_a_lower_epoch_is_taken_from_the_log() -> None:
    """Its leader had forgotten it, this replica had not."""
    known = taken(header(0, epoch=3), header(0, epoch=1, at=1))

    assert answer(known, header(1, epoch=1)) is None


def test_a_failed_append_leaves_what_was_known() -> None:
    known = taken(header(0), header(0, producer_id=8, at=1), header(1, at=2))
    before, newest = known.copy(), known.newest_offset

    known.begin_append()
    known.take(header(2, at=3), NOW_MS + 1)
    known.take(header(0, producer_id=9, at=4), NOW_MS + 1)
    known.forget_oldest()
    known.take(header(3, at=5), NOW_MS + 1)
    known.take_back()

    assert (known.copy(), known.newest_offset) == (before, newest)
    known.take_back()
    assert known.copy() == before, "once only"


def test_a_producer_that_made_room_in_a_failed_append_is_the_longest_silent_again() -> None:
    known = taken(header(0), header(0, producer_id=8, at=1))

    known.begin_append()
    known.take(header(0, producer_id=9, at=2), NOW_MS + 1)
    known.forget_oldest()
    known.take_back()

    assert list(known) == [ME, 8]


def test_the_producers_are_in_the_order_of_their_last_appends() -> None:
    known = taken(header(0), header(0, producer_id=8, at=1), header(1, at=2))

    assert list(known) == [8, ME]
    known.take(header(1, producer_id=8, at=3), NOW_MS + 5)
    assert known.silent_since_ms == NOW_MS
    assert known.silent_before(NOW_MS + 5) == [ME]
    known.forget_oldest()
    assert list(known) == [8]
    assert known.window_offsets() == {1, 3}


def test_a_stamped_batch_is_answered_with_its_append_time() -> None:
    stamped = read_header(
        build_batch(
            [b"v"], timestamps_ms=NOW_MS, is_log_append_time=True, producer_id=1, producer_epoch=0, base_sequence=0
        )
    )

    known = taken(stamped, header(0))
    found = {one: entry.batches[-1].append_time_ms for one, entry in known.copy().items()}
    assert found == {1: NOW_MS, ME: -1}


@pytest.mark.parametrize("epoch", [0, 1])
def test_what_was_copied_does_not_change(epoch: int) -> None:
    known = taken(header(0))
    copy = known.copy()
    known.take(header(1 - epoch, epoch=epoch, at=1), NOW_MS)

    assert KnownProducers(copy).get(ME) == taken(header(0)).get(ME)
