"""Templates escape, and show numbers, sizes and times for people."""

from __future__ import annotations

import re

import pytest

from penstock.console.page import address_of
from penstock.console.rendering import (
    TEMPLATES,
    TEXT_LETTERS_MAX,
    KeptTexts,
    shown_number,
    shown_size,
    shown_time,
    template_environment,
)

HOSTILE = "<script>alert(1)</script>\"'\u202egpj"


def test_texts_are_escaped_and_made_plain() -> None:
    made = template_environment().from_string("<p title='{{ x }}'>{{ x }}</p>").render(x=HOSTILE)
    assert "<script" not in made and "\u202e" not in made and "\\u202e" in made
    assert made.count("<") == 2 and made.count("'") == 2


def test_a_field_of_a_form_comes_back_as_it_was() -> None:
    made = template_environment().from_string('<input value="{{ x|exact }}">').render(x='a"\n\u202e')
    assert made == '<input value="a&#34;\n\u202e">'


def test_no_template_switches_escaping_off_or_has_a_script_or_a_style_of_its_own() -> None:
    for path in TEMPLATES.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|<style| style=|\son\w+=|javascript:", text), path.name
        assert not re.search(r"<script(?![^>]*\ssrc=\"/static/)", text), path.name
        assert 'method="post"' not in text or 'name="token"' in text, path.name


def test_names_in_addresses_are_encoded() -> None:
    assert address_of("/group", id="a/../?&<b> ü", page=None) == "/group?id=a%2F..%2F%3F%26%3Cb%3E+%C3%BC"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (-1, "–"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**80, "1073741824.0 PiB")],
)
def test_sizes_have_units(value: int | None, text: str) -> None:
    assert shown_size(value) == text


def test_odd_times_and_numbers_do_not_break_a_page() -> None:
    assert shown_time(0) == "1970-01-01 00:00:00.000+00:00"
    assert shown_time(2**62) == f"{2**62} ms since 1970"
    assert shown_time(-1) == "–" and shown_number(None) == "–" and shown_number(1234567) == "1,234,567"


def test_the_text_of_a_view_is_made_once_and_that_of_an_equal_one_anew() -> None:
    texts, view, made = KeptTexts(), [1], list[str]()

    def make() -> str:
        made.append("made")
        return f"text {len(made)}"

    assert [texts.of("a", view, make) for _ in range(3)] == ["text 1"] * 3
    assert texts.of("b", view, make) == "text 2"
    assert texts.of("a", [1], make) == "text 3"


def test_few_texts_are_kept_the_newest_ones_and_none_that_is_long() -> None:
    texts, view = KeptTexts(kept_max=2), [1]
    for key in "abac":
        texts.of(key, view, lambda: "text")
    assert repr(texts) == "KeptTexts(2 of 2)"
    assert [texts.of(key, view, lambda: "anew") for key in "acb"] == ["text", "text", "anew"]
    long = "x" * (TEXT_LETTERS_MAX + 1)
    assert texts.of("c", [2], lambda: long) == long
    assert repr(texts) == "KeptTexts(1 of 2)"
