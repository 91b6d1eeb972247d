"""Record code of other projects behind one interface: aiokafka's compiled and plain code, and kafka-python's.

All three have the same names for the same things. kafka-python takes its codecs from lz4, zstandard and python-snappy
(extras of this project's `dev`). aiokafka takes cramjam, as we do; so for lz4 and zstd only kafka-python reads with
another library than ours. Its snappy is cramjam too, under another name; each has its own xerial framing around it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from aiokafka.record.default_records import (
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
    _DefaultRecordBatchBuilderPy,
    _DefaultRecordBatchPy,
)
from aiokafka.record.memory_records import MemoryRecords

from penstock.record.reader import Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it loads its schemas by a call that Python 3.12 deprecates
    from kafka.record.default_records import DefaultRecordBatch as _KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as _KafkaPythonBuilder
    from kafka.record.memory_records import MemoryRecords as _KafkaPythonMemoryRecords

READERS: dict[str, Any] = {
    "aiokafka compiled": DefaultRecordBatch,
    "aiokafka plain": _DefaultRecordBatchPy,
    "kafka-python": _KafkaPythonBatch,
}
BUILDERS: dict[str, Any] = {
    "aiokafka compiled": DefaultRecordBatchBuilder,
    "aiokafka plain": _DefaultRecordBatchBuilderPy,
    "kafka-python": _KafkaPythonBuilder,
}
WALKERS: dict[str, Any] = {"aiokafka": MemoryRecords, "kafka-python": _KafkaPythonMemoryRecords}
"""The classes that find the batches of a fetched buffer."""


def rows_of(batch: Any) -> list[Record]:
    """The records of one of their batches."""
    return [
        Record(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple((k, v) for k, v in r.headers))
        for r in batch
    ]


def batches_of(walker: str, buffer: bytes) -> list[Any]:
    """Their batches of a buffer, each with a right checksum."""
    records = WALKERS[walker](buffer)
    found = []
    while records.has_next():
        found.append(records.next_batch())
        assert found[-1].validate_crc()
    return found


def built(builder: str, rows: Sequence[Record], codec: int, **producer: int) -> bytearray:
    """A batch of theirs with these records; offsets count from 0."""
    made = BUILDERS[builder](
        magic=2,
        compression_type=codec,
        is_transactional=producer.get("is_transactional", 0),
        producer_id=producer.get("producer_id", -1),
        producer_epoch=producer.get("producer_epoch", -1),
        base_sequence=producer.get("base_sequence", -1),
        batch_size=1 << 30,
    )
    for offset, row in enumerate(rows):
        assert made.append(offset, row.timestamp_ms, row.key, row.value, list(row.headers)) is not None
    return bytearray(made.build())
