"""The records of transactions: as Kafka 4.3.1 wrote them, and as they are written here.

`kafka_4_3_1.log` is a segment of its `__transaction_state`, `kafka_4_3_1.jsonl` what its own DumpLogSegments tells of
each record.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.coordination.record_codec import MalformedRecordError
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_records import (
    RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_record,
    encode_transaction_record,
    log_value,
    read_transaction_log,
)
from broker.transactions.transaction_states import STATUS
from penstock.errors import CorruptMessageError
from penstock.messages.transactions.listing import TransactionState
from penstock.record.builder import build_batch
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.kafka_json import json_record
from tests.support.transaction_core import T0_MS

HERE = Path(__file__).parent
LOG = (HERE / "kafka_4_3_1.log").read_bytes()
PRINTED = [json.loads(line) for line in (HERE / "kafka_4_3_1.jsonl").read_text().splitlines()]
WRITTEN = read_records(LOG)
FULL = TransactionMetadata(
    "t",
    7,
    32_767,
    60_000,
    TransactionState.PREPARE_ABORT,
    T0_MS,
    T0_MS - 5,
    frozenset({TopicPartition("b", 1), TopicPartition("a", 300), TopicPartition("a", 0)}),
    6,
    8,
    32_766,
    2,
)


def test_each_record_says_what_kafkas_own_tool_reads_in_it() -> None:
    rows = [json_record(*record, RECORDS) for one in WRITTEN if (record := RECORDS.decode(one.key, one.value))]
    assert rows == PRINTED


def test_a_record_of_kafka_is_written_with_the_same_bytes() -> None:
    """Several topics are in no order there."""
    for one in WRITTEN:
        record = decode_transaction_record(one.key, one.value)
        assert record is not None and one.value is not None
        key, value = encode_transaction_record(*record)
        assert key == one.key and value is not None
        topics = {partition.topic for partition in record[1].partitions}
        assert value == one.value if len(topics) < 2 else sorted(value) == sorted(one.value)


def test_the_log_is_read_by_its_last_records() -> None:
    part = read_transaction_log(LOG, 0)
    assert (part.next_offset, part.read, part.unknown, part.transactional) == (len(PRINTED), len(PRINTED), 0, 0)
    assert [key.transactional_id for key, _ in part.records] == list(
        dict.fromkeys(row[0]["data"]["transactionalId"] for row in PRINTED)
    )
    assert {value.state for _, value in part.records} <= {
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.EMPTY,
    }
    assert read_transaction_log(LOG, len(PRINTED) - 1).read == 1


@pytest.mark.parametrize("state", list(STATUS))
def test_a_record_is_read_as_it_was_written(state: TransactionState) -> None:
    written = FULL._replace(state=state, partitions=FULL.partitions if state.value[0] in "OP" else frozenset())
    record = decode_transaction_record(*encode_transaction_record(TransactionLogKey(transactional_id="t"), written))
    assert record is not None and record[1] == written


def test_the_same_state_has_the_same_bytes_and_a_tombstone_none() -> None:
    value = log_value(FULL)
    assert value.transaction_partitions is not None
    assert [(one.topic, one.partition_ids) for one in value.transaction_partitions] == [("a", [0, 300]), ("b", [1])]
    key = TransactionLogKey(transactional_id="t")
    assert encode_transaction_record(key, None) == (b"\0\0\0\1t", None)
    assert decode_transaction_record(b"\0\0\0\1t", None) == (key, None)


def test_the_first_version_of_a_value_is_read() -> None:
    value = bytes.fromhex("0000000000000000000700030000ea6000ffffffff0000000000000005ffffffffffffffff")
    record = decode_transaction_record(b"\0\0\0\1t", value)
    assert record is not None
    assert record[1] == TransactionMetadata("t", 7, 3, 60_000, TransactionState.EMPTY, 5)


def test_a_record_of_another_type_is_passed_over() -> None:
    batch = build_batch([b"\0\0x", b"\0\0x"], keys=[b"\x03\xeflater", b"\0\x07other"], timestamps_ms=T0_MS)
    part = read_transaction_log(batch, 0)
    assert (part.read, part.unknown, part.records) == (2, 2, [])


@pytest.mark.parametrize("status", [-1, 6, 7, 9])
def test_a_status_that_no_log_has_is_damage(status: int) -> None:
    value = log_value(FULL)
    value.transaction_status = status
    key_bytes, value_bytes = RECORDS.encode(TransactionLogKey(transactional_id="t"), value)
    with pytest.raises(MalformedRecordError):
        decode_transaction_record(key_bytes, value_bytes)
    with pytest.raises(MalformedRecordError, match="offset 1"):
        read_transaction_log(build_batch([b"\0\0", value_bytes], keys=[b"\0\x07", key_bytes], timestamps_ms=T0_MS), 0)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x02", b"\0\1\0\0"])
def test_a_value_that_is_none_is_damage(value: bytes) -> None:
    with pytest.raises(MalformedRecordError):
        decode_transaction_record(b"\0\0\0\1t", value)


def test_a_batch_that_is_damaged_is_not_read() -> None:
    with pytest.raises(CorruptMessageError):
        read_transaction_log(LOG[:90] + b"!" + LOG[91:], 0)


def test_a_field_of_kafkas_newer_commits_is_read() -> None:
    """Two-phase commits (KIP-939) write it; nothing here goes by it."""
    value = TransactionLogValue(producer_id=1, next_producer_epoch=4, transaction_status=0)
    key_bytes, value_bytes = RECORDS.encode(TransactionLogKey(transactional_id="t"), value)
    assert RECORDS.decode(key_bytes, value_bytes) == (TransactionLogKey(transactional_id="t"), value)
