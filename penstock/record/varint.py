"""Zig-zag varints, as records use them: small magnitudes of either sign in few bytes, seven bits a byte, low first.

     0 -> 00    -1 -> 01    1 -> 02    -64 -> 7f    64 -> 80 01    8191 -> fe 7f    -8193 -> 81 80 01

The functions are for single numbers. In bulk, the builder looks numbers up in `VARINTS` and the reader in `UNZIGZAG`;
both know at which number a varint grows (`WIDTH_LIMITS`).
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError

MAX_VARLONG_BYTES = 10
"""64 bits at seven a byte. A longer one is damage, never a number."""
MAX_VARINT_BYTES = 5
"""32 bits at seven a byte. Java's readers refuse lengths and offset deltas in more bytes, whatever their value."""
WIDTH_LIMITS = tuple(1 << (7 * width - 1) for width in range(1, MAX_VARLONG_BYTES + 1))
"""`WIDTH_LIMITS[w - 1]` is the least number, not negative, that needs more than `w` bytes: 64, 8192, 1048576, …"""
TABLE_LIMIT = WIDTH_LIMITS[1]
"""Numbers below this are in the tables: most lengths, and the offset deltas of batches of up to 8192 records."""
_INT64_MAX = (1 << 63) - 1


def encode_varint(number: int) -> bytes:
    """The bytes of one signed number of at most 64 bits."""
    if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
        raise OverflowError(f"{number} does not fit 64 bits")
    return encode_unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def encode_unsigned(number: int) -> bytes:
    """The bytes of a number that has no sign, or whose sign is folded already."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_varint(
    buffer: bytes | bytearray | memoryview, at: int, max_bytes: int = MAX_VARLONG_BYTES
) -> tuple[int, int]:
    """The signed number at `at`, and the position after it."""
    zigzag, after = decode_zigzag(buffer, at, max_bytes)
    return zigzag >> 1 ^ -(zigzag & 1), after


def decode_zigzag(
    buffer: bytes | bytearray | memoryview, at: int, max_bytes: int = MAX_VARLONG_BYTES
) -> tuple[int, int]:
    """The number at `at` before its sign is unfolded, and the position after it."""
    size = len(buffer)
    if at < size and (first := buffer[at]) < 0x80:
        return first, at + 1
    if at + 1 < size and (second := buffer[at + 1]) < 0x80:
        return first & 0x7F | second << 7, at + 2
    zigzag = shift = 0
    for byte in buffer[at : at + max_bytes]:
        zigzag |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if zigzag >> 64:
                break
            return zigzag, at + shift // 7
    raise CorruptMessageError(f"no varint at byte {at}: it is cut off or too long")


class VarintTable(dict[int, bytes]):
    """Number to varint. A number that is not in it is computed and not kept, so the table does not grow."""

    def __missing__(self, number: int) -> bytes:
        return encode_varint(number)


VARINTS = VarintTable({number: encode_varint(number) for number in range(-1, TABLE_LIMIT)})
UNZIGZAG = tuple(zigzag >> 1 ^ -(zigzag & 1) for zigzag in range(2 * TABLE_LIMIT))
"""The value of every varint of one or two bytes, by its zig-zag number."""
