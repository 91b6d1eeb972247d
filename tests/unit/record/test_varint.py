"""Varints: the known bytes, both ways, and damage."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptMessageError
from penstock.record.varint import UNZIGZAG, VARINTS, WIDTH_LIMITS, decode_varint, encode_varint

KNOWN = [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (8191, "fe7f"), (8192, "808001")]
EDGES = [0, 1, -1, (1 << 63) - 1, -(1 << 63), *WIDTH_LIMITS[:-1], *(-limit for limit in WIDTH_LIMITS[:-1])]


@pytest.mark.parametrize(("number", "written"), KNOWN)
def test_known_numbers_have_the_known_bytes(number: int, written: str) -> None:
    assert encode_varint(number) == bytes.fromhex(written) == VARINTS[number]


@pytest.mark.parametrize("number", [near for edge in EDGES for near in (edge - 1, edge, edge + 1)])
def test_numbers_come_back_and_their_width_is_foretold(number: int) -> None:
    if not -(1 << 63) <= number < 1 << 63:
        with pytest.raises(OverflowError):
            encode_varint(number)
        return
    written = encode_varint(number)

    assert decode_varint(b"\xff" + written + b"\xff", 1) == (number, 1 + len(written))


@pytest.mark.parametrize("written", ["", "80", "ffff", "ff" * 10 + "01", "ff" * 9 + "7f"])
def test_cut_off_or_endless_or_too_large_is_corrupt(written: str) -> None:
    with pytest.raises(CorruptMessageError):
        decode_varint(bytes.fromhex(written), 0)


def test_tables_agree_with_the_functions() -> None:
    assert all(decode_varint(written, 0) == (number, len(written)) for number, written in VARINTS.items())
    assert UNZIGZAG[:5] == (0, -1, 1, -2, 2)


def test_table_does_not_grow() -> None:
    before = len(VARINTS)
    assert VARINTS[1 << 20] == encode_varint(1 << 20)
    assert len(VARINTS) == before
