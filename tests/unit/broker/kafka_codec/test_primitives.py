"""Unsigned varints and uuids at their edges."""

from __future__ import annotations

import pytest

from broker.kafka_codec.primitives import uuid_bytes, uuid_text, uvarint, uvarint_bytes

KNOWN = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "80 01"),
    (300, "ac 02"),
    (1023, "ff 07"),
    (1024, "80 08"),
    (16_383, "ff 7f"),
    (16_384, "80 80 01"),
    ((1 << 28) - 1, "ff ff ff 7f"),
    (1 << 28, "80 80 80 80 01"),
    ((1 << 32) - 1, "ff ff ff ff 0f"),
]


@pytest.mark.parametrize(("number", "text"), KNOWN)
def test_a_varint_has_seven_bits_a_byte(number: int, text: str) -> None:
    assert uvarint_bytes(number) == bytes.fromhex(text)
    assert uvarint(memoryview(b"\xff" + bytes.fromhex(text) + b"\xff"), 1) == (number, 1 + len(bytes.fromhex(text)))


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("", "00" * 16),
        ("AAAAAAAAAAAAAAAAAAAAAQ", "00" * 15 + "01"),
        ("_____________________w", "ff" * 16),
        ("A-B_AAAAAAAAAAAAAAAAAA", "03e07f" + "00" * 13),
    ],
)
def test_a_uuid_is_22_characters_of_which_none_is_padding(text: str, raw: str) -> None:
    assert uuid_bytes(text) == bytes.fromhex(raw)
    assert uuid_text(bytes.fromhex(raw)) == text
