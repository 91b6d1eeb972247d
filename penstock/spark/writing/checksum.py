"""The checksum of the rows of a write: the same in any order, and however they are dealt to tasks and Arrow batches.

Each row has a hash of 64 bits over the columns that become its record; the checksum is their sum. A micro-batch that
Spark repeats must have the checksum that was decided with it: with other rows of the same number, rows would be lost or
written twice without a word. It finds mistakes; it is no defence against somebody who makes rows for it.

Vectorised with NumPy, eight bytes of all rows at a time. A long value is hashed by itself, which is a step of Python
for at least LONG_BYTES. Runs in executors. Decisions keep the checksum, so no later version may change the hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.arrow_encode import as_binary

if TYPE_CHECKING:
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]

LONG_BYTES: Final = 1024
WORD_BYTES: Final = 8
_NULL, _SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_FACTOR, _LENGTH = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "timestamp")


class RowSum:
    """The number and the sum of the rows that went by. `topic`: that of all rows; a column of it does not count."""

    def __init__(self, topic: str) -> None:
        self._columns = [name for name in _COLUMNS if name != "topic" or not topic]
        self.rows = 0
        self.total = 0

    def over(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The Arrow batches, each counted when it is taken."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: Any) -> None:
        hashes = np.zeros(batch.num_rows, np.uint64)
        for name in self._columns:
            at = batch.schema.get_field_index(name)
            column = batch.column(at) if at >= 0 else None
            is_null = column is None or column.null_count == len(column)
            hashes = _mixed(hashes + (_NULL if is_null else _of_column(column)))
        self.rows += batch.num_rows
        self.total += int(np.add.reduce(hashes, dtype=np.uint64))


def _of_column(column: Any) -> Hashes:
    kind = column.type
    if pa.types.is_list(kind):
        return _with_nulls(_of_headers(column), column)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _with_nulls(_mixed(numbers.astype(np.int64).view(np.uint64) ^ _SEED), column)
    return _with_nulls(_of_binary(as_binary(column)), column)


def _with_nulls(hashes: Hashes, column: Any) -> Hashes:
    if not column.null_count:
        return hashes
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)


def _of_headers(column: Any) -> Hashes:
    """A hash of each row's headers, and of their order, which is a part of the record."""
    flat = column.flatten()
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(counts)
    places = np.arange(len(flat), dtype=np.int64) - np.repeat(ends - counts, counts)
    hashes = places.astype(np.uint64)
    for name in ("key", "value"):
        part = pc.struct_field(flat, name)
        of_part = np.full(len(part), _NULL) if part.null_count == len(part) else _of_column(part)
        hashes = _mixed(hashes + of_part)
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)))
    return _mixed((sums[ends] - sums[ends - counts]) ^ counts.astype(np.uint64))


def _of_binary(column: Any) -> Hashes:
    """A hash of each value; that of a null means nothing."""
    count = len(column)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
    lengths = np.diff(offsets)
    data = column.buffers()[2]
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    hashes = _SEED + lengths.astype(np.uint64) * _LENGTH
    is_long = lengths > LONG_BYTES
    for row in np.flatnonzero(is_long):
        digest = hashlib.blake2b(raw[starts[row] : starts[row] + lengths[row]].data, digest_size=WORD_BYTES).digest()
        hashes[row] ^= np.uint64(int.from_bytes(digest, "little"))
    left = np.flatnonzero(~is_long & (lengths > 0))
    words = _words(raw)
    done = 0
    while len(left):
        hashes[left] = _mixed(hashes[left] ^ _word_at(words, starts[left] + done, lengths[left] - done))
        done += WORD_BYTES
        left = left[lengths[left] > done]
    return _mixed(hashes)


def _words(raw: npt.NDArray[np.uint8]) -> Hashes:
    """The bytes as whole words, with zeros behind them."""
    padded = np.zeros((len(raw) // WORD_BYTES + 2) * WORD_BYTES, np.uint8)
    padded[: len(raw)] = raw
    words: Hashes = padded.view("<u8")
    return words


def _word_at(words: Hashes, places: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Hashes:
    """The up to eight bytes at each place, of two words; those beyond the size are 0."""
    at, shift = places >> 3, ((places & 7) << 3).astype(np.uint64)
    low, high = words[at] >> shift, (words[at + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    unused = ((WORD_BYTES - np.minimum(sizes, WORD_BYTES)) << 3).astype(np.uint64)
    found: Hashes = ((low | high) << unused) >> unused
    return found


def _mixed(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _FACTOR
    return hashes ^ (hashes >> np.uint64(29))
