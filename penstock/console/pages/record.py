"""One record, whole; and the bytes of its key or its value, for a download."""

from __future__ import annotations

from typing import Final

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.fields import FieldError
from penstock.console.page import PageAsked
from penstock.console.pages.record_forms import FORMS
from penstock.console.pages.records import FETCH_BYTES, POLL_MS, RecordView, ShownLimits, chosen_partitions, record_view
from penstock.lazy_dataclass import dataclass
from penstock.written.numbers import INT32_MAX

WHOLE_BYTES_MAX: Final = 1024 * 1024
WHOLE: Final = ShownLimits(bytes_max=WHOLE_BYTES_MAX, headers_max=200, header_bytes_max=4_096)
POLLS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class OneRecordView:
    """One record, and its neighbours."""

    record: RecordView
    before: int | None
    after: int
    forms: tuple[str, ...] = FORMS


async def show_record(asked: PageAsked) -> OneRecordView:
    """Reads one offset."""
    record = await read_record(asked)
    return OneRecordView(
        record=record_view(record, asked.fields.choice("show", FORMS, "auto"), WHOLE),
        before=record.offset - 1 if record.offset else None,
        after=record.offset + 1,
    )


async def read_record(asked: PageAsked) -> ConsumerRecord:
    """The record at an offset; FieldError where there is none."""
    topic, number = asked.fields.text("topic"), asked.fields.number("partition", None, 0, INT32_MAX)
    offset = asked.fields.number("offset")
    async with asked.reading.turn(asked.user), asked.link.consumer(fetch_max_bytes=FETCH_BYTES) as consumer:
        (at,) = chosen_partitions(topic, await consumer.partitions_for(topic), number)
        await consumer.assign([at])
        first, end = (await consumer.beginning_offsets([at]))[at], (await consumer.end_offsets([at]))[at]
        if not first <= offset < end:
            raise FieldError(
                "offset", f"{at} has the offsets {first} to {end - 1}" if first < end else f"{at} is empty"
            )
        await consumer.seek(at, offset)
        for _ in range(POLLS_MAX):
            for record in await consumer.poll(timeout_ms=POLL_MS, max_records=1):
                if record.offset == offset:
                    return record
                raise FieldError(
                    "offset", f"no record has it (compacted, or a marker); the next one is {record.offset}"
                )
    raise FieldError("offset", "no record has it: it is a marker of a transaction, or was compacted")
