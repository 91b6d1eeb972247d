"""Records of a topic: from an offset, from a time, the oldest, or the newest; those whose key, value or header fits.
Those of a whole key are read in the partition where the default partitioner puts it.

A page reads until it has enough rows, is at the ends that the partitions had when it began, or has read
RECORDS_READ_MAX records or BYTES_READ_MAX bytes, or READ_SECONDS are over; it says which. Not here: how bytes are shown
(record_forms.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final, Protocol

from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.producer.partitioner import partition_for_key
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.pages.record_forms import FORMS, ShownBytes, shown_bytes
from penstock.errors import UnknownTopicOrPartitionError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from penstock.written.numbers import INT32_MAX
from penstock.written.times import MOMENT_FORMS, moment_ms

ROWS_USUAL: Final = 50
ROWS_ASKED_MAX: Final = 500
RECORDS_READ_MAX: Final = 20_000
BYTES_READ_MAX: Final = 32 * 1024 * 1024
READ_SECONDS: Final = 5.0
POLL_MS: Final = 1_000
"""A poll without records for so long ends the page: only markers of transactions are left."""
FETCH_BYTES: Final = 4 * 1024 * 1024
POLL_RECORDS_MAX: Final = 500
"""Records of one poll, which the client ends sooner by the bytes that they have without compression."""
SHOWN_BYTES_MAX: Final = 2_048
"""Bytes of one value in the list; the page of the record has more."""
HEADER_COST_BYTES: Final = 100
HEADERS_LISTED_MAX: Final = 16
HEADER_LISTED_BYTES_MAX: Final = 256
"""Headers of one record in the list, and bytes of each. A record of 1 MiB may have 100,000 of them."""
PART_RECORDS: Final = 1_000
"""Records that are read at a time from the end backwards, of all partitions."""
NO_MORE: Final = "there were no more records"
STARTS: Final = ("newest", "oldest", "offset", "time")
RECORD_FIELDS: Final = (
    "topic",
    "partition",
    "from",
    "offset",
    "time",
    "count",
    "until",
    "key",
    "whole",
    "value",
    "header",
    "show",
    "committed",
)


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """How much of one record is shown."""

    bytes_max: int
    headers_max: int
    header_bytes_max: int


LISTED: Final = ShownLimits(SHOWN_BYTES_MAX, HEADERS_LISTED_MAX, HEADER_LISTED_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class HeaderView:
    """One header."""

    name: str
    value: ShownBytes


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: ShownBytes
    value: ShownBytes
    headers: tuple[HeaderView, ...]
    headers_total: int
    """The headers that it has; of many the first are shown."""


@dataclass(frozen=True, slots=True)
class RecordsView:
    """Some records of a topic."""

    topic: str
    partitions: tuple[int, ...]
    """Every partition of the topic."""
    records: tuple[RecordView, ...]
    read: int
    """Records that were read for it."""
    ended: str
    """Why it ended there."""
    next_offset: int | None
    """The offset after the last one that was read; None for several partitions."""
    home: int | None = None
    """The partition where the key belongs, if it alone was read for that."""
    older_until: int | None = None
    """The newest records below this offset were not looked at; None where there are none, or several partitions."""
    starts: tuple[str, ...] = STARTS
    forms: tuple[str, ...] = FORMS


class RecordTest(Protocol):
    """Says which records a page wants."""

    @property
    def is_empty(self) -> bool:
        """True if it asks for nothing: the newest records are rows, and no others need to be read."""
        ...

    def takes(self, record: ConsumerRecord) -> bool:
        """True for a record that is a row."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The parts that a record must have; "" asks for nothing."""

    key: bytes
    value: bytes
    header_name: str
    header_value: bytes
    is_whole: bool = False
    """The key must be this one, and not have it as a part."""

    @staticmethod
    def of(fields: Fields) -> RecordFilter:
        """The filter of a query: parts of keys and values, and a header as name or name=part."""
        name, _, value = fields.text("header", "").partition("=")
        key, part, whole = fields.text("key", ""), fields.text("value", ""), fields.flag("whole")
        return RecordFilter(key.encode(), part.encode(), name, value.encode(), bool(key) and whole)

    @property
    def is_empty(self) -> bool:
        return not (self.key or self.value or self.header_name)

    def takes(self, record: ConsumerRecord) -> bool:
        """True for a record that has all of it."""
        has_key = record.key == self.key if self.is_whole else self.key in (record.key or b"")
        if not has_key or self.value not in (record.value or b""):
            return False
        return not self.header_name or any(
            name == self.header_name and self.header_value in (value or b"") for name, value in record.headers
        )


@dataclass(slots=True)
class Spent:
    """The records and bytes that one page has read, and when it must end."""

    read: int = 0
    size_bytes: int = 0
    stop_at: float = field(default_factory=lambda: asyncio.get_running_loop().time() + READ_SECONDS)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The partitions to read, the ends at which they are left, and how much is wanted."""

    partitions: tuple[TopicPartition, ...]
    ends: dict[TopicPartition, int]
    count: int
    filter: RecordTest
    is_newest: bool


@dataclass(frozen=True, slots=True)
class NewestRecords:
    """The newest records that fit, the newest first."""

    records: tuple[ConsumerRecord, ...]
    read: int
    ended: str
    """Why reading ended."""
    has_older: bool
    """Some partition has records before those that were read."""
    older_until: int | None = None
    """See RecordsView."""


async def show_records(asked: PageAsked) -> RecordsView:
    """Reads with a consumer of its own, which is closed afterwards and commits nothing."""
    fields = asked.fields
    topic, form = fields.text("topic"), fields.choice("show", FORMS, "auto")
    count, start = fields.number("count", ROWS_USUAL, 1, ROWS_ASKED_MAX), fields.choice("from", STARTS, "newest")
    isolation = "read_committed" if fields.flag("committed") else "read_uncommitted"
    async with (
        asked.reading.turn(asked.user),
        asked.link.consumer(isolation_level=isolation, fetch_max_bytes=FETCH_BYTES) as consumer,
    ):
        every = await consumer.partitions_for(topic)
        number, wanted = fields.maybe_number("partition", 0, INT32_MAX), RecordFilter.of(fields)
        home = partition_for_key(wanted.key, len(every)) if wanted.is_whole and number is None and every else None
        chosen = tuple(chosen_partitions(topic, every, number if home is None else home))
        await consumer.assign(chosen)
        ends, older_until = await consumer.end_offsets(chosen), None
        plan = ReadPlan(chosen, _until(fields, chosen, ends), count, wanted, start == "newest")
        if plan.is_newest:
            newest = await _read_back(consumer, plan)
            found, read, ended = list(newest.records), newest.read, newest.ended
            older_until = newest.older_until
        else:
            await _seek(asked, consumer, plan, start)
            found, read, ended = await _read(consumer, plan)
    last = found[-1] if found else None
    return RecordsView(
        topic=topic,
        partitions=tuple(one.partition for one in every),
        records=tuple(record_view(one, form, LISTED) for one in found),
        read=read,
        ended=ended,
        next_offset=last.offset + 1 if last is not None and len(chosen) == 1 and not plan.is_newest else None,
        home=home,
        older_until=older_until,
    )


async def read_newest(
    asked: PageAsked, topic: str, count: int, wanted: RecordTest, before_ms: int | None = None
) -> NewestRecords:
    """The newest records that fit, or the newest of those from before a time."""
    async with asked.reading.turn(asked.user), asked.link.consumer(fetch_max_bytes=FETCH_BYTES) as consumer:
        every = tuple(await consumer.partitions_for(topic))
        await consumer.assign(every)
        ends = await consumer.end_offsets(every)
        if before_ms is not None:
            for tp, place in (await consumer.offsets_for_times(dict.fromkeys(every, before_ms))).items():
                ends[tp] = ends[tp] if place is None else place.offset
        return await _read_back(consumer, ReadPlan(every, ends, count, wanted, is_newest=True))


def chosen_partitions(topic: str, every: Sequence[TopicPartition], number: int | None) -> list[TopicPartition]:
    """The partition of the number, or all."""
    chosen = [one for one in every if number is None or one.partition == number]
    if not chosen:
        raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {number}; it has 0 to {len(every) - 1}")
    return chosen


def _until(
    fields: Fields, chosen: Sequence[TopicPartition], ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends, or the offset before which a reader goes on with older records."""
    until = fields.maybe_number("until")
    if until is None:
        return ends
    if len(chosen) > 1:
        raise FieldError("partition", "is missing: each partition has its own offsets")
    return {tp: min(end, until) for tp, end in ends.items()}


async def _seek(asked: PageAsked, consumer: AsyncConsumer, plan: ReadPlan, start: str) -> None:
    fields, wanted = asked.fields, plan.partitions
    if start == "oldest":
        await consumer.seek_to_beginning()
    elif start == "offset":
        if len(wanted) > 1:
            raise FieldError("partition", "is missing: each partition has its own offsets")
        first = (await consumer.beginning_offsets(wanted))[wanted[0]]
        await consumer.seek(wanted[0], max(first, min(fields.number("offset"), plan.ends[wanted[0]])))
    else:
        at_ms = moment_ms(fields.text("time"), asked.wall_ms)
        if at_ms is None:
            raise FieldError("time", f"must be {MOMENT_FORMS}")
        for tp, place in (await consumer.offsets_for_times(dict.fromkeys(wanted, at_ms))).items():
            await consumer.seek(tp, plan.ends[tp] if place is None else place.offset)


async def _read_back(consumer: AsyncConsumer, plan: ReadPlan) -> NewestRecords:
    """Reads from the ends backwards, one part after the other, so that a limit leaves out the oldest records."""
    firsts = await consumer.beginning_offsets(plan.partitions)
    ends, found, spent = plan.ends, list[ConsumerRecord](), Spent()
    part_records = max(1, PART_RECORDS // len(plan.partitions))
    step = plan.count if plan.filter.is_empty else part_records
    while True:
        starts = {tp: max(firsts[tp], ends[tp] - step) for tp in plan.partitions}
        for tp, offset in starts.items():
            await consumer.seek(tp, offset if offset < ends[tp] else plan.ends[tp])  # nothing of it is left
        part, read, ended = await _read(consumer, replace(plan, ends=ends, count=plan.count + 1), spent)
        fits = len(found) + len(part)
        found = _newest([*found, *part], plan)
        has_older = any(firsts[tp] < starts[tp] for tp in plan.partitions)
        if fits >= plan.count and (has_older or fits > plan.count):
            until = found[-1].offset if len(plan.partitions) == 1 else None
            return NewestRecords(tuple(found), read, f"{plan.count} rows were asked for", has_older, until)
        if ended != NO_MORE or not has_older:
            until = _looked_at_down_to(ends, plan) if ended != NO_MORE else None
            return NewestRecords(tuple(found), read, ended, has_older, until)
        ends = starts
        step = min(part_records, max(1, (RECORDS_READ_MAX - read) // len(plan.partitions)))


def _looked_at_down_to(ends: dict[TopicPartition, int], plan: ReadPlan) -> int | None:
    """The end of the part at which a limit ended a reader of one partition; None if nothing above it was read."""
    ((tp, end), *others) = ends.items()
    return end if not others and end < plan.ends[tp] else None


async def _read(
    consumer: AsyncConsumer, plan: ReadPlan, spent: Spent | None = None
) -> tuple[list[ConsumerRecord], int, str]:
    """The records that fit, how many the page has read, and why it ended."""
    found: list[ConsumerRecord] = []
    spent = spent or Spent()
    left = {tp for tp in plan.partitions if plan.ends[tp] > (await consumer.position(tp)).offset}
    while left:
        for record in (batch := await consumer.poll(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)):
            spent.read, spent.size_bytes = spent.read + 1, spent.size_bytes + size_of(record)
            at = TopicPartition(record.topic, record.partition)
            if record.offset < plan.ends[at] and plan.filter.takes(record):
                found.append(record)
            if record.offset + 1 >= plan.ends[at]:
                left.discard(at)
        if not plan.is_newest and len(found) >= plan.count:
            return found[: plan.count], spent.read, f"{plan.count} rows were asked for"
        if spent.read >= RECORDS_READ_MAX or spent.size_bytes >= BYTES_READ_MAX:
            reason = f"it has read {spent.read:,} records, {spent.size_bytes:,} bytes; ask for a narrower part"
            return _newest(found, plan), spent.read, reason
        if not batch:
            break
        if asyncio.get_running_loop().time() >= spent.stop_at:
            return _newest(found, plan), spent.read, f"it has read for {READ_SECONDS:.0f} s; ask for a narrower part"
    return _newest(found, plan), spent.read, NO_MORE


def _newest(found: list[ConsumerRecord], plan: ReadPlan) -> list[ConsumerRecord]:
    """The last ones, the newest first, where these were asked for. Those of one partition are in the order of the log:
    the times are the producers' own, and a page of older ones begins below the smallest offset of this one."""
    if not plan.is_newest:
        return found[: plan.count]
    by_time = len(plan.partitions) > 1
    order = sorted(found, key=lambda one: (one.timestamp_ms if by_time else 0, one.offset), reverse=True)
    return order[: plan.count]


def size_of(record: ConsumerRecord) -> int:
    """The bytes of a record in memory, about. A header costs some even if it is empty."""
    headers = sum(len(name) + len(value or b"") + HEADER_COST_BYTES for name, value in record.headers)
    return len(record.value or b"") + len(record.key or b"") + headers


def record_view(record: ConsumerRecord, form: str, limits: ShownLimits) -> RecordView:
    """A record for a page."""
    headers = record.headers[: limits.headers_max]
    return RecordView(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type="append time" if record.timestamp_type else "create time",
        key=shown_bytes(record.key, form, limits.bytes_max),
        value=shown_bytes(record.value, form, limits.bytes_max),
        headers=tuple(
            HeaderView(name[: limits.header_bytes_max], shown_bytes(value, form, limits.header_bytes_max))
            for name, value in headers
        ),
        headers_total=len(record.headers),
    )
