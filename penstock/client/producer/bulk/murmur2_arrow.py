"""Kafka's partition for every key of an Arrow array at once: partitioner.py's rule, with numpy.

Keys of one length are hashed together, four bytes of all of them in a step. One at a time they cost 4 µs each, nine
tenths of the work of a sink whose keys do not repeat. A property test says that both hashes agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.client.producer.partitioner import MULTIPLIER, POSITIVE, SEED

if TYPE_CHECKING:
    import numpy.typing as npt

NO_KEY = -1
_M = np.uint32(MULTIPLIER)


def partition_ids(keys: Any, partition_count: int) -> npt.NDArray[np.int64]:
    """The partition of each key of a binary array; NO_KEY where the key is null."""
    ids = np.full(len(keys), NO_KEY, np.int64)
    if keys.null_count == len(keys):
        return ids
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if keys.null_count:
        lengths[keys.is_null().to_numpy(zero_copy_only=False)] = NO_KEY
    for length in np.unique(lengths).tolist():
        if length != NO_KEY:
            rows = np.flatnonzero(lengths == length)
            hashes = _murmur2(data, starts[rows], length)
            ids[rows] = (hashes & np.uint32(POSITIVE)).astype(np.int64) % partition_count
    return ids


def _murmur2(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint32]:
    """The hashes of keys of one length; numbers wrap at 32 bits, as the algorithm wants."""
    hashes = np.full(len(starts), SEED ^ length, np.uint32)
    whole = length & ~3
    for at in range(0, whole, 4):
        k = _word(data, starts + at, 4) * _M
        k ^= k >> np.uint32(24)
        k *= _M
        hashes *= _M
        hashes ^= k
    if whole < length:
        hashes ^= _word(data, starts + whole, length - whole)
        hashes *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _word(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint32]:
    """Up to four bytes from each start, the first one the lowest."""
    word = data[starts].astype(np.uint32)
    for place in range(1, width):
        word |= data[starts + place].astype(np.uint32) << np.uint32(8 * place)
    return word
