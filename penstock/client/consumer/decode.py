"""Decodes fetched bytes up to the first batch that cannot be decoded, and says which one that is.

Shared by poll, poll_arrow and Spark; `Decoder` is the plain or the Arrow reader. The whole piece is decoded in one go;
only when that fails is it looked at batch by batch. A damaged batch may come from a disk, from the way, or from a
producer that wrote junk with a right checksum, so every exception of a decoder counts, not only our own. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.record.batch import BatchHeader, iter_headers
from penstock.record.reader import TooLargeTogetherError

PIECE_BYTES_MIN: Final = 64 * 1024 * 1024
PIECE_GROWTH_MAX: Final = 32
"""A piece that unpacks to more than this, or more than so many times its size, is taken in parts. Honest records shrink
to a tenth or twentieth; repeated bytes to a thousandth, and a piece of 4 MiB would fill 4 GiB."""

C = TypeVar("C")
Decoder = Callable[[bytes, int], C]
"""The records of whole batches from an offset on."""


class BadBatch(NamedTuple):
    """A batch that cannot be decoded: where it begins, from where reading can go on, and what is wrong with it."""

    offset: int
    next_offset: int
    size_bytes: int
    cause: Exception

    @property
    def why(self) -> str:
        return str(self.cause) or repr(self.cause)


class Decoded(NamedTuple, Generic[C]):
    """The records from the start offset to before `next_offset`, out of the first `size_bytes`; `bad` is the batch that
    comes then, if that is why it ends."""

    columns: C
    next_offset: int
    size_bytes: int
    bad: BadBatch | None


def piece_bytes_max(records: bytes) -> int:
    """The bytes that these records may have together without compression."""
    return max(PIECE_BYTES_MIN, PIECE_GROWTH_MAX * len(records))


def decode_good(records: bytes, from_offset: int, next_offset: int, decoder: Decoder[C]) -> Decoded[C]:
    """The records that can be decoded of a piece that reaches to `next_offset`, from its first byte on."""
    try:
        return Decoded(decoder(records, from_offset), next_offset, len(records), None)
    except MemoryError:
        raise
    except TooLargeTogetherError as error:
        last = max((one for one in iter_headers(records) if one[0] < error.at), key=lambda one: one[0])[1]
        return decode_good(records[: error.at], from_offset, max(last.next_offset, from_offset), decoder)
    except Exception as error:
        return _before_damage(records, from_offset, decoder, error)


def _before_damage(records: bytes, from_offset: int, decoder: Decoder[C], error: Exception) -> Decoded[C]:
    batches = list(iter_headers(records))
    for number, (at, header) in enumerate(batches):
        try:
            decoder(records[at : at + header.size_bytes], from_offset)
        except MemoryError:
            raise
        except Exception as cause:
            good_to = max(batches[number - 1][1].next_offset, from_offset) if number else from_offset
            after = _after(batches, number, good_to)
            bad = BadBatch(max(header.base_offset, 0), after, header.size_bytes, cause)
            good = decode_good(records[:at], from_offset, good_to, decoder)
            # too large together: the bad batch is in the rest, and comes after that
            return good if good.size_bytes < at else Decoded(good.columns, good_to, at, bad)
    if len(batches) < 2:
        raise error
    half, last = batches[len(batches) // 2][0], batches[len(batches) // 2 - 1][1]  # together they are too large
    return decode_good(records[:half], from_offset, max(last.next_offset, from_offset), decoder)


def _after(batches: list[tuple[int, BatchHeader]], number: int, good_to: int) -> int:
    """The offset behind a bad batch. Its own header may lie; the next one's base offset bounds what it says.

    The smaller of the two is safe: the leader answers with the batch that holds an offset, or the next one.
    """
    ends = [batches[number][1].next_offset]
    if number + 1 < len(batches):
        ends.append(batches[number + 1][1].base_offset)
    return min((end for end in ends if end > good_to), default=good_to + 1)
