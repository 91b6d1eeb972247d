"""Pages of records stay small, whatever one record has in it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.producer.partitioner import partition_for_key
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.pages.record import WHOLE
from penstock.console.pages.records import (
    BYTES_READ_MAX,
    HEADER_COST_BYTES,
    HEADER_LISTED_BYTES_MAX,
    LISTED,
    POLL_RECORDS_MAX,
    ROWS_ASKED_MAX,
    ReadPlan,
    RecordFilter,
    _read,
    record_view,
    show_records,
)
from penstock.types import TopicPartition
from tests.support.console_pages import SETTINGS, WALL_MS

AT = TopicPartition("t", 0)


def record(offset: int = 0, value: bytes = b"v", headers: tuple[tuple[str, bytes | None], ...] = ()) -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, 0, None, value, headers)


class EndlessConsumer:
    """A topic of alike records."""

    def __init__(self, one: ConsumerRecord) -> None:
        self.one, self.given = one, 0

    async def position(self, tp: TopicPartition) -> Any:
        return record(0)

    async def poll(self, timeout_ms: int, max_records: int) -> list[ConsumerRecord]:
        self.given += max_records
        return [self.one] * max_records


def records_read(one: ConsumerRecord) -> tuple[int, int, str]:
    consumer: Any = EndlessConsumer(one)
    plan = ReadPlan((AT,), {AT: 1_000_000}, 500, RecordFilter(b"absent", b"", "", b""), is_newest=True)
    _, read, ended = asyncio.run(_read(consumer, plan))
    return read, consumer.given, ended


def test_headers_count_among_the_bytes_that_a_page_reads() -> None:
    many = tuple((f"{n}", None) for n in range(10_000))
    read, given, ended = records_read(record(value=b"", headers=many))
    assert read == given <= BYTES_READ_MAX // (HEADER_COST_BYTES * len(many)) + POLL_RECORDS_MAX
    assert "ask for a narrower part" in ended


def test_a_page_of_huge_records_ends_after_few_of_them() -> None:
    read, given, _ = records_read(record(value=bytes(BYTES_READ_MAX)))
    assert read == given == POLL_RECORDS_MAX


def test_of_many_or_long_headers_the_first_and_the_beginning_are_shown() -> None:
    view = record_view(record(headers=(("n" * 9_000, b"x" * 9_000), *(("h", b"y"),) * 5_000)), "auto", LISTED)
    assert (len(view.headers), view.headers_total) == (LISTED.headers_max, 5_001)
    assert len(view.headers[0].name) == HEADER_LISTED_BYTES_MAX == len(view.headers[0].value.text)
    assert view.headers[0].value.is_cut and view.headers[0].value.size_bytes == 9_000
    assert len(record_view(record(headers=(("h", None),) * 5_000), "auto", WHOLE).headers) == WHOLE.headers_max


class KeyedTopic:
    """A topic of three partitions where the keys k-0 to k-9 take turns, and a consumer of it."""

    def __init__(self, records: int) -> None:
        self.logs: dict[int, list[ConsumerRecord]] = {0: [], 1: [], 2: []}
        for number in range(records):
            key = b"k-%d" % (number % 10)
            at = partition_for_key(key, 3)
            self.logs[at].append(ConsumerRecord("t", at, len(self.logs[at]), number, 0, key, b"%d" % number, ()))
        self.at: dict[int, int] = {}
        self.read: set[int] = set()

    def consumer(self, **options: object) -> KeyedTopic:
        return self

    async def __aenter__(self) -> KeyedTopic:
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Nothing is left."""

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in self.logs]

    async def assign(self, chosen: Any) -> None:
        self.at = {tp.partition: 0 for tp in chosen}

    async def end_offsets(self, chosen: Any) -> dict[TopicPartition, int]:
        return {tp: len(self.logs[tp.partition]) for tp in chosen}

    async def beginning_offsets(self, chosen: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(chosen, 0)

    async def seek(self, tp: TopicPartition, offset: int) -> None:
        self.at[tp.partition] = offset

    async def position(self, tp: TopicPartition) -> Any:
        return ConsumerRecord("t", tp.partition, self.at[tp.partition], 0, 0, None, b"", ())

    async def poll(self, timeout_ms: int, max_records: int) -> list[ConsumerRecord]:
        found = []
        for partition, offset in self.at.items():
            part = self.logs[partition][offset : offset + max_records]
            self.at[partition] += len(part)
            found += part
            self.read |= {partition} if part else set()
        return found


def shown(topic: KeyedTopic, **fields: str) -> Any:
    link: Any = topic
    return asyncio.run(show_records(PageAsked(link, Fields({"topic": "t", **fields}), SETTINGS, WALL_MS)))


def test_a_record_is_found_by_its_whole_key_in_the_partition_where_it_belongs() -> None:
    topic = KeyedTopic(100)
    view = shown(topic, key="k-7", whole="yes")
    home = partition_for_key(b"k-7", 3)
    assert (view.home, topic.read) == (home, {home})
    assert [one.value.text for one in view.records] == [str(number) for number in range(97, 0, -10)]
    assert shown(topic, key="k-", whole="yes").records == ()
    assert len(shown(topic, key="k-").records) == 50 and shown(topic, key="k-").home is None
    other = shown(topic, key="k-7", whole="yes", partition=str((home + 1) % 3))
    assert (other.home, other.records) == (None, ())


def test_older_records_of_a_partition_are_reached_page_by_page() -> None:
    topic = KeyedTopic(9_000)
    wanted = {"key": "k-7", "whole": "yes", "count": "100"}
    found, until, pages = list[str](), "", 0
    while pages == 0 or until:
        view = shown(topic, **wanted, until=until)
        found += [one.value.text for one in view.records]
        until, pages = str(view.older_until or ""), pages + 1
    assert found == [str(number) for number in range(8_997, 0, -10)] and pages == 9
    with pytest.raises(FieldError, match="partition"):
        shown(topic, until="5")
    assert shown(topic).older_until is None


@pytest.mark.parametrize("count", [20, ROWS_ASKED_MAX])
def test_older_records_are_all_reached_where_the_clock_of_their_producer_was_set_back(count: int) -> None:
    topic = KeyedTopic(9_000)
    log = topic.logs[0]
    for late in log[900:]:
        log[late.offset] = late._replace(timestamp_ms=late.timestamp_ms - 86_400_000)
    found, until, pages = list[int](), "", 0
    while pages == 0 or until:
        view = shown(topic, partition="0", key="k-", count=str(count), until=until)
        found += [one.offset for one in view.records]
        until, pages = str(view.older_until or ""), pages + 1
    assert found == [one.offset for one in reversed(log)]
