"""A poll gives everything good first, then the error of what is not; positions move with what is given and no further.

Every promise holds for lists of records and for tables alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock import AsyncConsumer
from penstock.client.consumer.arrow_table import ArrowOptions, take_table
from penstock.client.consumer.consumer_core import POLL_BYTES, ConsumerCore
from penstock.client.consumer.decode import PIECE_BYTES_MIN, PIECE_GROWTH_MAX, decode_good
from penstock.client.consumer.fetching.effects import Deliver, ReportError
from penstock.errors import InvalidRequestError, MessageTooLargeError, UndecodableBatchError
from penstock.messages.fetch import FetchResponse, PartitionFetchResult
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_columns
from penstock.types import TopicPartition
from tests.support.bad_batches import BAD, wrong_checksum
from tests.support.client_environment import nothing, still_environment

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
Rows = list[tuple[int, int]]
Take = Callable[[ConsumerCore, int | None], Rows]


def as_records(core: ConsumerCore, max_records: int | None = None) -> Rows:
    return [(record.partition, record.offset) for record in core.take_records(max_records)]


def as_table(core: ConsumerCore, max_records: int | None = None) -> Rows:
    table = take_table(core, ArrowOptions(max_records))
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


both = pytest.mark.parametrize("take", [as_records, as_table])


def good(base_offset: int, count: int = 2) -> bytes:
    return build_batch([b"v"] * count, timestamps_ms=0, base_offset=base_offset, leader_epoch=0)


def consumer(**options: Any) -> ConsumerCore:
    core = ConsumerCore("127.0.0.1:1", {"auto_offset_reset": "none", **options}, still_environment(), nothing)
    core.positions.assign([A, B])
    for tp in (A, B):
        core.positions.seek(tp, 0)
    return core


def fetched(core: ConsumerCore, tp: TopicPartition, from_offset: int, *batches: bytes, to: int) -> None:
    core.buffer.put(Deliver(tp, core.positions.states[tp].generation, b"".join(batches), from_offset, to))


def positions(core: ConsumerCore) -> tuple[int, int]:
    return core.positions.states[A].position, core.positions.states[B].position


@both
@pytest.mark.parametrize("bad", BAD)
def test_one_bad_batch_costs_no_good_record_of_any_partition(take: Take, bad: Callable[[int], bytes]) -> None:
    core = consumer()
    fetched(core, A, 0, good(0), to=2)
    fetched(core, B, 0, good(0), bad(2), good(4), to=6)
    fetched(core, A, 2, good(2), to=4)
    fetched(core, B, 6, good(6), to=8)

    assert take(core, None) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]
    assert positions(core) == (4, 2)
    with pytest.raises(UndecodableBatchError) as caught:
        take(core, None)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 1, 2, 4)
    assert "consumer.seek(TopicPartition('t', 1), 4)" in str(error)
    assert positions(core) == (4, 2)


@both
def test_reading_goes_on_behind_a_bad_batch_after_a_seek_and_only_then(take: Take) -> None:
    core = consumer()
    fetched(core, B, 0, wrong_checksum(0), good(2), to=4)
    with pytest.raises(UndecodableBatchError) as caught:
        take(core, None)
    fetched(core, A, 0, good(0), to=2)
    fetched(core, B, 4, good(4), to=6)

    assert take(core, None) == [(0, 0), (0, 1)], "the other partition goes on"
    assert positions(core) == (2, 0)
    with pytest.raises(UndecodableBatchError):
        core.reader.raise_waiting()

    core.positions.seek(B, caught.value.next_offset)
    fetched(core, B, 2, good(2), to=4)
    assert take(core, None) == [(1, 2), (1, 3)]
    core.reader.raise_waiting()


@both
def test_a_good_part_larger_than_a_poll_comes_whole_before_the_error(take: Take) -> None:
    core = consumer()
    fetched(core, A, 0, good(0, 5), wrong_checksum(5), to=7)

    assert take(core, 2) == [(0, 0), (0, 1)]
    assert positions(core)[0] == 2
    assert take(core, 2) == [(0, 2), (0, 3)]
    assert take(core, 2) == [(0, 4)]
    with pytest.raises(UndecodableBatchError):
        take(core, 2)
    assert positions(core)[0] == 5


def test_a_table_and_a_list_continue_each_other_up_to_the_error() -> None:
    core = consumer()
    fetched(core, A, 0, good(0, 9), wrong_checksum(9), to=11)
    found: Rows = []
    for take in (as_records, as_table) * 2:
        found += take(core, 2)
    assert found + as_records(core, 2) == [(0, n) for n in range(9)]
    with pytest.raises(UndecodableBatchError):
        as_table(core, 2)


@both
def test_a_batch_that_reaches_below_its_start_offset_gives_no_record_twice(take: Take) -> None:
    core = consumer()
    fetched(core, A, 0, good(0, 3), to=3)
    fetched(core, A, 3, good(0, 6), to=6)
    assert take(core, None) == [(0, n) for n in range(6)]


@both
def test_an_error_of_the_loop_comes_after_what_was_fetched_before_it(take: Take) -> None:
    core = consumer()
    fetched(core, A, 0, good(0), to=2)
    core.buffer.put(ReportError(A, core.positions.states[A].generation, InvalidRequestError("no")))
    fetched(core, B, 0, good(0), to=2)
    assert take(core, None) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    with pytest.raises(InvalidRequestError):
        take(core, None)


@both
def test_a_poll_that_fails_for_want_of_memory_gives_everything_to_the_next(
    take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = consumer()
    fetched(core, A, 0, good(0, 4), to=4)
    fetched(core, B, 0, good(0), wrong_checksum(2), to=4)
    fetched(core, A, 4, good(4), to=6)
    assert take(core, 1) == [(0, 0)]
    decode, calls = core.reader.decode, []

    def fails_once(piece: Deliver, decoder: Any) -> Any:
        calls.append(piece)
        if piece.from_offset == 4 and sum(call.from_offset == 4 for call in calls) == 1:
            raise MemoryError
        return decode(piece, decoder)

    monkeypatch.setattr(core.reader, "decode", fails_once)
    with pytest.raises(MemoryError):
        take(core, None)
    assert positions(core) == (1, 0)
    assert take(core, None) == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (0, 4), (0, 5)]
    with pytest.raises(UndecodableBatchError):
        take(core, None)


def test_a_poll_of_an_async_consumer_that_is_cancelled_loses_nothing() -> None:
    async def scenario() -> list[int]:
        one = AsyncConsumer("127.0.0.1:1", auto_offset_reset="none")
        core = one._core
        core.positions.assign([A])
        core.positions.seek(A, 0)
        core.fetcher.touch = lambda: None  # type: ignore[method-assign]  # there is no broker
        fetched(core, A, 0, good(0), to=2)
        for steps in range(4):
            poll = asyncio.ensure_future(one.poll(timeout_ms=1_000))
            for _ in range(steps):
                await asyncio.sleep(0)
            if poll.done():
                return [record.offset for record in poll.result()]
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)
        return [record.offset for record in await one.poll()]

    assert asyncio.run(scenario()) == [0, 1]


# -- what can be decoded of a piece ------------------------------------------------------------------------------------


def test_a_header_that_lies_about_its_end_does_not_lead_past_the_next_batch() -> None:
    lying = build_batch([b"x"], timestamps_ms=0, base_offset=2, last_offset_delta=90, offset_deltas=[0])
    damaged = bytearray(lying)
    damaged[-1] ^= 1
    records = good(0) + bytes(damaged) + good(4)
    decoded = decode_good(records, 0, 6, lambda data, low: read_columns(data, from_offset=low))
    assert decoded.next_offset == 2 and decoded.bad is not None
    assert (decoded.bad.offset, decoded.bad.next_offset) == (2, 4)


def test_batches_that_are_too_large_only_together_come_in_parts() -> None:
    core = consumer()

    def decoder(records: bytes, from_offset: int) -> list[int]:
        columns = read_columns(records, from_offset=from_offset)
        if len(columns) > 4:
            raise MessageTooLargeError("too many for one array")
        return list(columns.offsets)

    fetched(core, A, 1, *[good(n) for n in range(0, 14, 2)], to=14)
    found: list[list[int]] = []
    with core.reader.turn():
        while (piece := core.reader.next_piece()) is not None:
            offsets, piece = core.reader.decode(piece, decoder)
            core.reader.give(piece)
            found.append(offsets)
    assert [n for part in found for n in part] == list(range(1, 14)) and len(found) > 3
    assert positions(core)[0] == 14


class NoMemory(bytes):
    """Fetched bytes that cannot be copied."""

    def __bytes__(self) -> bytes:
        raise MemoryError


def test_an_answer_that_cannot_be_taken_in_skips_no_record() -> None:
    """Neither of the partition whose records found no memory, nor of the one before it in the answer."""
    core = consumer()
    for tp in (A, B):
        core.positions.states[tp].topic_id = "id"
    records = [good(0), NoMemory(good(0) + b"the beginning of a batch")]
    results = tuple(
        PartitionFetchResult(tp, "id", 0, None, 2, 0, found) for tp, found in zip((A, B), records, strict=True)
    )

    async def arrive() -> None:
        with pytest.raises(MemoryError):
            core.fetcher.on_answer(1, FetchResponse(results))

    asyncio.run(arrive())
    assert [core.positions.states[tp].fetch_offset for tp in (A, B)] == [2, 0]
    assert as_records(core) == [(0, 0), (0, 1)]


def packed(base_offset: int, size_bytes: int) -> bytes:
    """A batch of one record that unpacks to that size."""
    return build_batch([bytes(size_bytes)], timestamps_ms=0, base_offset=base_offset, leader_epoch=0, codec=Codec.ZSTD)


def test_small_batches_that_unpack_to_a_lot_are_taken_in_parts_each_record_once() -> None:
    core = consumer()
    fetched(core, A, 0, *(packed(n, PIECE_BYTES_MIN // 4) for n in range(9)), to=9)
    found = [[record.offset for record in core.take_records(1)]]
    assert found == [[0]] and core._leftover is not None and len(core._leftover.records) <= 4
    while part := [record.offset for record in core.take_records(100)]:
        found.append(part)
    assert [offset for part in found for offset in part] == list(range(9)) and positions(core) == (9, 0)


def test_a_table_of_small_batches_that_unpack_to_a_lot_is_taken_in_parts_each_record_once() -> None:
    core = consumer(fetch_max_bytes=1)
    fetched(core, A, 0, *(packed(n, PIECE_BYTES_MIN // 4) for n in range(6)), to=6)
    found = []
    while part := as_table(core):
        found.append([offset for _, offset in part])
    assert [offset for part in found for offset in part] == list(range(6)) and positions(core) == (6, 0)
    assert len(found) > 1


def test_a_table_ends_by_the_bytes_that_its_records_have_without_compression() -> None:
    core = consumer(fetch_max_bytes=2 * POLL_BYTES // PIECE_GROWTH_MAX)
    for n in range(5):
        fetched(core, A, n, packed(n, POLL_BYTES), to=n + 1)
    assert [len(as_table(core)) for _ in range(4)] == [2, 2, 1, 0]


@both
def test_good_batches_that_unpack_to_a_lot_come_in_parts_before_the_damage_behind_them(take: Take) -> None:
    core = consumer()
    plain = build_batch([bytes(PIECE_BYTES_MIN // 20)], timestamps_ms=0, base_offset=6, leader_epoch=0)
    good_ones = [packed(n, PIECE_BYTES_MIN // 4) for n in range(5)]
    fetched(core, A, 0, *good_ones, wrong_checksum(5), plain, to=7)
    found: Rows = []
    while len(found) < 5:
        found += take(core, None)
    assert found == [(0, n) for n in range(5)] and positions(core) == (5, 0)
    with pytest.raises(UndecodableBatchError) as caught:
        take(core, None)
    assert caught.value.offset == 5


def test_a_poll_ends_by_the_bytes_that_its_records_have_without_compression() -> None:
    core = consumer()
    for n in range(6):
        fetched(core, A, n, packed(n, POLL_BYTES // 2), to=n + 1)
    assert [len(core.take_records(100)) for _ in range(4)] == [2, 2, 2, 0]
