"""Pages of records stay small, whatever one record has in it."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.pages.record import WHOLE
from penstock.console.pages.records import (
    BYTES_READ_MAX,
    HEADER_COST_BYTES,
    HEADER_LISTED_BYTES_MAX,
    LISTED,
    POLL_RECORDS_MAX,
    ReadPlan,
    RecordFilter,
    _read,
    record_view,
)
from penstock.types import TopicPartition

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
