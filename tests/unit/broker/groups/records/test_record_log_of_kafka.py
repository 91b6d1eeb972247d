"""A log that Kafka 4.3.1 wrote: its groups were classic, new, and moved from the one to the other and back.

`kafka_4_3_1.log` is the segment, `kafka_4_3_1.jsonl` what Kafka's own DumpLogSegments tells of each of its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker.coordination.record_log import LogPart
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.groups.records.record_log import read_group_records
from penstock.errors import CorruptMessageError
from penstock.record.reader import read_records
from tests.support.group_log import entries_of, written_batches
from tests.support.kafka_json import json_record

HERE = Path(__file__).parent
LOG = (HERE / "kafka_4_3_1.log").read_bytes()
PRINTED = [json.loads(line) for line in (HERE / "kafka_4_3_1.jsonl").read_text().splitlines()]
WRITTEN = read_records(LOG)


def in_order(records: Iterable[Any]) -> list[str]:
    """Records of groups as they come, and after them offsets, whose order means nothing."""
    rows = list(records)
    offsets = sorted(json.dumps(one) for one in rows if one[0]["type"] == "1")
    return [json.dumps(one) for one in rows if one[0]["type"] != "1"] + offsets


def wanted(rows: list[Any]) -> list[str]:
    """The last record of each key."""
    last = {json.dumps(one[0]): place for place, one in enumerate(rows)}
    return in_order(rows[place] for place in sorted(last.values()))


def read(part: LogPart) -> list[str]:
    return in_order(json_record(*entry) for entry in entries_of(part))  # type: ignore[misc]


def test_each_record_says_what_kafkas_own_tool_reads_in_it() -> None:
    assert [json_record(*record) for one in WRITTEN if (record := decode_group_record(one.key, one.value))] == PRINTED

    found = read_group_records(LOG, 0)
    assert read(found) == wanted(PRINTED)
    assert (found.next_offset, found.unknown, found.transactional) == (len(PRINTED), 0, 0)


def test_each_record_is_written_again_with_the_same_bytes() -> None:
    for written in WRITTEN:
        record = decode_group_record(written.key, written.value)
        assert record is not None
        assert encode_group_record(*record) == (written.key, written.value)
    assert len(WRITTEN) == len(PRINTED)


def test_reading_begins_inside_of_a_batch_and_leaves_a_partial_one() -> None:
    assert read(read_group_records(LOG, 9)) == wanted(PRINTED[9:])

    part = read_group_records(LOG[:-1], 0)
    assert 0 < part.next_offset < len(PRINTED)
    assert read(part) == wanted(PRINTED[: part.next_offset])


def test_a_damaged_batch_is_told() -> None:
    damaged = bytearray(LOG)
    damaged[100] ^= 1
    with pytest.raises(CorruptMessageError):
        read_group_records(bytes(damaged), 0)


@pytest.mark.parametrize("batch_bytes_max", [1_000, 2_000, 1_000_000])
def test_batches_hold_the_records_in_their_order_and_none_is_too_large(batch_bytes_max: int) -> None:
    records = [record for one in WRITTEN if (record := decode_group_record(one.key, one.value))]

    batches = written_batches(records, batch_bytes_max)

    written = [decode_group_record(one.key, one.value) for batch in batches for one in read_records(batch)]
    assert written == records
    assert max(map(len, batches)) <= batch_bytes_max
    assert (len(batches) == 1) == (batch_bytes_max == 1_000_000)
