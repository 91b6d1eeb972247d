"""Bytes of records as people see them: nothing is lost, and nothing is as large as a hostile record wants."""

from __future__ import annotations

import json

import pytest

from penstock.console.pages.record_forms import HEX_BYTES_MAX, INDENTED_TIMES_MAX, NULL, indented, shown_bytes


def test_a_null_is_no_empty_value() -> None:
    assert shown_bytes(None, "auto", 10) is NULL
    assert (shown_bytes(b"", "auto", 10).form, shown_bytes(b"", "auto", 10).text) == ("text", "")


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b'{"a":1}', "json"),
        (b"[1,2]", "json"),
        (b"12", "text"),
        (b"{no json", "text"),
        (b"\xff", "hex"),
        (b"a\x00", "hex"),
    ],
)
def test_auto_finds_a_form(data: bytes, form: str) -> None:
    assert shown_bytes(data, "auto", 100).form == form


def test_json_keeps_its_numbers_its_order_and_keys_that_come_twice() -> None:
    text = '{"z":1e400,"a":10000000000000000000000001,"z":[],"s":"{\\"x\\": [1,2]}","e":{}}'
    made = indented(text, 10_000)
    assert made is not None
    assert "".join(made.split()) == "".join(text.split())
    assert made.splitlines()[:2] == ["{", '  "z": 1e400,'] and made.splitlines()[-1] == "}"
    for value in ({"a": [1, {"b": None}], "c": {}}, [], [[]], "x,{y}:[z]", {"é\n": "\u202e"}):
        assert json.loads(indented(json.dumps(value), 10_000) or "") == value


def test_deep_json_is_text() -> None:
    deep = b"[" * 100_000
    assert shown_bytes(deep, "json", len(deep)).form == "text"


def test_a_long_value_is_cut_and_says_so_without_half_a_letter() -> None:
    shown = shown_bytes("é".encode() * 100, "text", 11)
    assert (shown.text, shown.size_bytes, shown.is_cut) == ("é" * 5, 200, True)
    in_hex = shown_bytes(b"\xff" * 10_000, "hex", 1 << 20)
    assert in_hex.is_cut and len(in_hex.text.splitlines()) == HEX_BYTES_MAX // 16
    assert in_hex.text.splitlines()[0].startswith("00000000  ff ff")


def test_deep_json_is_not_made_longer_than_a_page_can_bear() -> None:
    for depth, numbers in ((900, 120_000), (400, 500), (100, 10)):
        data = b"[" * depth + b",".join([b"1"] * numbers) + b"]" * depth
        shown = shown_bytes(data, "auto", 1024 * 1024)
        assert len(shown.text) <= INDENTED_TIMES_MAX * len(data) and shown.size_bytes == len(data)
    usual = json.dumps([{"id": n, "items": [{"sku": "a", "count": n}]} for n in range(100)]).encode()
    assert shown_bytes(usual, "auto", 1024 * 1024).form == "json"
