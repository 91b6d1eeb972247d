"""send_many for Arrow: slices of an array become batches without an object per record. Imports pyarrow.

With keys, all are hashed at once (or the user's partitioner is asked once for each distinct one), and the rows put
together by partition with one `take`. Not here: values that are no Arrow array (cutting.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

from penstock.client.producer.batch import RECORD_OVERHEAD_BYTES
from penstock.client.producer.bulk.cutting import is_arrow
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.errors import InvalidRecordError, MissingDependencyError
from penstock.record.codecs import Codec
from penstock.record.lone_batch import LONE_OVERHEAD_BYTES, check_record_size, smallest_batch

try:
    import numpy as np
    import pyarrow as pa

    from penstock.client.producer.bulk.murmur2_arrow import NO_KEY, partition_ids
    from penstock.record.arrow_encode import as_binary, build_batch_from_arrow
except ImportError as error:
    raise MissingDependencyError("Arrow needs pyarrow and numpy: pip install 'penstock[arrow]'") from error

MAX_KEYED_ROWS = 200_000
"""Rows that are put together by partition at a time."""


class ArrowPlan(Protocol):
    """The part of one send_many's plan (bulk_plan.py) that says where records go, and how large a batch may be."""

    @property
    def limit_bytes(self) -> int: ...

    @property
    def record_limit_bytes(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...

    @property
    def has_partition(self) -> bool: ...

    @property
    def has_partitioner(self) -> bool: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def codec(self) -> Codec: ...

    def queue(self, key: bytes | None = None, value: bytes | None = None) -> PartitionQueue: ...

    def queue_of(self, partition: int) -> PartitionQueue: ...


def arrow_batches(plan: ArrowPlan, values: Any, keys: Any) -> Iterator[tuple[PartitionQueue, bytes, int]]:
    """Every batch of the array, in order within each partition."""
    if keys is not None and not is_arrow(keys):
        keys = pa.array(keys)
    if keys is not None and len(keys) != len(values):
        raise InvalidRecordError("send_many got more values than keys, or more keys than values")
    for part_values, part_keys in _chunks(values, keys):
        if part_keys is None:
            yield from _encode(plan, None, part_values, None)
        elif plan.has_partition:
            yield from _encode(plan, plan.queue(), part_values, part_keys)
        elif plan.has_partitioner:
            yield from _by_distinct_key(plan, part_values, part_keys)
        else:
            yield from _by_hash(plan, part_values, part_keys)


def _chunks(values: Any, keys: Any) -> Iterator[tuple[Any, Any]]:
    """The array in plain (not chunked) pieces; with keys, of bounded length."""
    if keys is None:
        yield from ((chunk, None) for chunk in (values.chunks if isinstance(values, pa.ChunkedArray) else [values]))
        return
    for low in range(0, len(values), MAX_KEYED_ROWS):
        yield as_binary(values.slice(low, MAX_KEYED_ROWS)), as_binary(keys.slice(low, MAX_KEYED_ROWS))


def _by_hash(plan: ArrowPlan, values: Any, keys: Any) -> Iterator[tuple[PartitionQueue, bytes, int]]:
    ids = partition_ids(keys, plan.partition_count)
    for partition in np.unique(ids).tolist():
        rows = pa.array(np.flatnonzero(ids == partition))
        queue = plan.queue() if partition == NO_KEY else plan.queue_of(partition)
        yield from _encode(plan, queue, values.take(rows), keys.take(rows))


def _by_distinct_key(plan: ArrowPlan, values: Any, keys: Any) -> Iterator[tuple[PartitionQueue, bytes, int]]:
    encoded = keys.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    queues: dict[int, PartitionQueue] = {}
    home = np.empty(len(distinct) + 1, np.int64)
    for index, key in enumerate([*distinct, None]):
        queue = plan.queue(key, None)
        queues[id(queue)] = queue
        home[index] = id(queue)
    codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    homes = home[codes]
    for identity, queue in queues.items():
        rows = pa.array(np.flatnonzero(homes == identity))
        if len(rows):
            yield from _encode(plan, queue, values.take(rows), keys.take(rows))


def _encode(
    plan: ArrowPlan, queue: PartitionQueue | None, values: Any, keys: Any
) -> Iterator[tuple[PartitionQueue, bytes, int]]:
    """Slices that fit one batch each; an estimate first, halved where rows are uneven."""
    total = len(values)
    if not total:
        return
    size = values.nbytes + (keys.nbytes if keys is not None else 0)
    step = max(1, int(plan.limit_bytes / (size / total + RECORD_OVERHEAD_BYTES)))
    low = 0
    while low < total:
        count = min(step, total - low)
        while True:
            part = values.slice(low, count)
            part_keys = keys.slice(low, count) if keys is not None else None
            if (
                count == 1
                or part.nbytes + (part_keys.nbytes if part_keys is not None else 0) + RECORD_OVERHEAD_BYTES * count
                <= plan.limit_bytes
            ):
                break
            count = max(count // 2, 1)
        if count == 1 and part.nbytes + LONE_OVERHEAD_BYTES > plan.record_limit_bytes:
            one, key = part[0].as_py(), None if part_keys is None else part_keys[0].as_py()
            check_record_size(one, key, (), plan.record_limit_bytes)
        batch = smallest_batch(
            partial(build_batch_from_arrow, part, keys=part_keys, timestamps_ms=plan.timestamp_ms), plan.codec, count
        )
        yield queue if queue is not None else plan.queue(), batch, count
        low += count
