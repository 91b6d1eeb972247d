"""Damage for decoders: makes a bad input from a good one and a seed, as rot or an attacker would.

Bits flip, numbers become extreme, pieces vanish, repeat and move, other inputs are spliced in, digits become very many
or those of another script. A `mend` corrects checksum and length afterwards, so that the code behind their checks runs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import Struct

LARGEST_BYTES = 64 * 1024
"""No input grows beyond this: the largest for which 100 ms of one core are promised."""
_EXTREMES = (0, 1, -1, 2, 127, 128, 255, 1 << 15, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
_WIDTHS = {2: Struct(">H"), 4: Struct(">I"), 8: Struct(">Q")}
_TEXTS = (
    *(b"9" * 5_000, b"-1", b"\xc2\xb2", b"\xd9\xa3", b"1e999", b"NaN"),
    *(b"[" * 3_000, b'{"a":' * 2_000, b"\n", b"\x00"),
)
"""Numbers that are too long, other scripts' digits (superscript two, Arabic three), nesting, ends of lines."""

Mutation = Callable[[Random, bytearray, bytes], None]


def mutated(random: Random, sample: bytes, other: bytes) -> bytes:
    """`sample` after one to four mutations; `other` is another good input, to splice from."""
    data = bytearray(sample)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        random.choice(_MUTATIONS)(random, data, other)
    return bytes(data[:LARGEST_BYTES])


def _flip(random: Random, data: bytearray, other: bytes) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set(random: Random, data: bytearray, other: bytes) -> None:
    if data:
        data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))


def _extreme(random: Random, data: bytearray, other: bytes) -> None:
    width = random.choice((2, 4, 8))
    if len(data) >= width:
        number = random.choice(_EXTREMES) & ((1 << 8 * width) - 1)
        _WIDTHS[width].pack_into(data, random.randrange(len(data) - width + 1), number)


def _long_varint(random: Random, data: bytearray, other: bytes) -> None:
    at = random.randrange(len(data) + 1)
    data[at : at + random.randrange(3)] = b"\xff" * random.choice((1, 4, 9, 10, 30)) + b"\x01"


def _cut(random: Random, data: bytearray, other: bytes) -> None:
    del data[random.randrange(len(data) + 1) :]


def _drop(random: Random, data: bytearray, other: bytes) -> None:
    at = random.randrange(len(data) + 1)
    del data[at : at + random.choice((1, 2, 8, random.randrange(len(data) + 1)))]


def _repeat(random: Random, data: bytearray, other: bytes) -> None:
    at = random.randrange(len(data) + 1)
    piece = data[at : at + random.choice((1, 2, 7, 61, random.randrange(len(data) + 1)))]
    data[at:at] = piece * random.choice((1, 2, 50, 1_000))
    del data[LARGEST_BYTES:]


def _splice(random: Random, data: bytearray, other: bytes) -> None:
    at, start = random.randrange(len(data) + 1), random.randrange(len(other) + 1)
    data[at : at + random.randrange(40)] = other[start : start + random.randrange(200)]


def _insert_text(random: Random, data: bytearray, other: bytes) -> None:
    at = random.randrange(len(data) + 1)
    data[at : at + random.randrange(3)] = random.choice(_TEXTS)


def _noise(random: Random, data: bytearray, other: bytes) -> None:
    at = random.randrange(len(data) + 1)
    data[at : at + random.randrange(30)] = random.randbytes(random.randrange(30))


_MUTATIONS: tuple[Mutation, ...] = (
    _flip,
    _set,
    _extreme,
    _long_varint,
    _cut,
    _drop,
    _repeat,
    _splice,
    _insert_text,
    _noise,
)
