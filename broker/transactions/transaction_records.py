"""The records of `__transaction_state`, in Kafka's format: one key a transactional id, its value the whole state.

    key      int16 0, then the transactional id
    value    int16 version (0 or 1, 1 is written), then the fields; null is a tombstone

The value of version 1 has one field more than Kafka's, the last producer epoch, so that an InitProducerId that is
repeated after a failover is answered as before it. It has a tag that Kafka passes over. Types that are not known here
are passed over, too.

Record batches are read here as well. From the records of one id in the part that is read only the last is decoded: a
log that was not cleaned yet has many. Reading stops at nothing but damage; records of unknown types are counted,
control batches passed over. Not here: batches for the log (coordination/tick_batches.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.coordination.record_codec import MalformedRecordError, RecordCodec, RecordType, first_version
from broker.coordination.record_log import LogPart, parts_of
from broker.coordination.watched_time import WATCHED_KEY_TYPE, WatchedTimeKey, WatchedTimeValue
from broker.kafka_codec.fields import array, int8, int16, int32, int64, string
from broker.kafka_codec.structs import message, struct
from broker.transactions.atomic_batches.application import BatchApplication
from broker.transactions.atomic_batches.batch_records import (
    APPLICATION_KEY_TYPE,
    BatchApplicationKey,
    BatchApplicationValue,
    application_of,
    application_value,
)
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_states import STATE_OF, STATUS
from penstock.record.batch import Buffer
from penstock.record.markers import Marker
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES
from penstock.types import TopicPartition

VALUE_VERSION: Final = 1


@message(versions="0")
class TransactionLogKey:
    transactional_id: str = string()


@struct
class PartitionsOfTopic:
    topic: str = string()
    partition_ids: list[int] = array(int32)


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """`next_producer_epoch` is of two-phase commits (KIP-939), which are not served."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, ignorable=True, default=-1)
    next_producer_id: int = int64("1+", tag=1, ignorable=True, default=-1)
    client_transaction_version: int = int16("1+", tag=2, ignorable=True, default=0)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, ignorable=True, default=-1)
    last_producer_epoch: int = int16("1+", tag=1000, ignorable=True, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsOfTopic] | None = array(PartitionsOfTopic, null="0+", default=None)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()


def _version(value: Any) -> int:
    return VALUE_VERSION


RECORDS: Final = RecordCodec(
    (
        RecordType(0, TransactionLogKey, TransactionLogValue, _version),
        RecordType(APPLICATION_KEY_TYPE, BatchApplicationKey, BatchApplicationValue, first_version),
        RecordType(WATCHED_KEY_TYPE, WatchedTimeKey, WatchedTimeValue, first_version),
    )
)


def encode_transaction_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """The bytes of a record as a turn has it: the value of a `TransactionLogKey` is a `TransactionMetadata`, that of a
    `BatchApplicationKey` a `BatchApplication`."""
    if isinstance(value, TransactionMetadata):
        value = log_value(value)
    elif isinstance(value, BatchApplication):
        value = application_value(value)
    return RECORDS.encode(key, value)


def decode_transaction_record(key_bytes: bytes | None, value_bytes: bytes | None) -> tuple[Any, Any | None] | None:
    """The record as a turn has it; None for a type that is not known here."""
    found = RECORDS.decode(key_bytes, value_bytes)
    if found is None:
        return None
    key, value = found
    if isinstance(value, TransactionLogValue):
        return key, transaction_of(key.transactional_id, value)
    return key, application_of(value) if isinstance(value, BatchApplicationValue) else value


def log_value(transaction: TransactionMetadata) -> TransactionLogValue:
    """Topics and partitions are in order, so that the same state has the same bytes. As in Kafka, they are null only
    where nothing was ever added."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    has_partitions = bool(topics) or STATUS[transaction.state] != 0
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.version,
        producer_epoch=transaction.producer_epoch,
        last_producer_epoch=transaction.last_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=STATUS[transaction.state],
        transaction_partitions=[
            PartitionsOfTopic(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()
        ]
        if has_partitions
        else None,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )


def transaction_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    state = STATE_OF.get(value.transaction_status)
    if state is None:
        raise MalformedRecordError(
            f"transactional id {transactional_id!r} has status {value.transaction_status}, which no log has"
        )
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_producer_epoch=value.last_producer_epoch,
        version=value.client_transaction_version,
    )


def read_transaction_log(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """Reads the newest records of the part; as `ReadLog` requires."""
    part = LogPart(from_offset)
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for one in parts_of(bytes(buffer), part, max_decompressed_bytes):
        if not isinstance(one, Marker) and one.producer is None:
            last.update(zip(one.keys, zip(one.offsets, one.values, strict=True), strict=True))
    for key, (offset, value) in last.items():
        try:
            record = decode_transaction_record(key, value)
        except MalformedRecordError as error:
            raise MalformedRecordError(f"offset {offset}: {error}") from None
        if record is None:
            part.unknown += 1
        else:
            part.records.append(record)
    return part
