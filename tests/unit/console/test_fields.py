"""Fields of queries and forms: what does not fit names the field, and nothing is guessed."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from penstock.console.fields import FIELDS_MAX, QUERY_BYTES_MAX, FieldError, Fields

KNOWN = ("name", "n", "yes")


def parsed(text: str) -> Fields:
    return Fields.parsed(text.encode(), KNOWN)


def test_values_are_decoded_and_empty_ones_count_as_not_given() -> None:
    fields = parsed("name=a%2F..%3Cb%3E+c&n=&yes=yes")
    assert fields.text("name") == "a/..<b> c"
    assert fields.number("n", 7) == 7 and fields.maybe_number("n") is None
    assert fields.flag("yes") and not parsed("").flag("yes")
    assert fields.as_pairs() == (("name", "a/..<b> c"), ("yes", "yes"))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("other=1", "other"),
        ("name=a&name=b", "name"),
        ("name=%ff", "fields"),
        ("name=" + "a" * QUERY_BYTES_MAX, "fields"),
        ("&".join(["name=a"] * (FIELDS_MAX + 1)), "fields"),
    ],
)
def test_a_query_that_is_not_as_it_should_be_names_the_field(query: str, field: str) -> None:
    with pytest.raises(FieldError) as failed:
        parsed(query)
    assert failed.value.field == field


@pytest.mark.parametrize("text", ["x", "1.5", "1e3", "٣", "-1", "2147483648", "9" * 30, "--1", "-"])
def test_a_number_is_whole_and_within_its_limits(text: str) -> None:
    with pytest.raises(FieldError, match=r"^n: "):
        parsed(urlencode({"n": text})).number("n", 0, 0, 2**31 - 1)


def test_a_field_that_is_needed_is_named_where_it_is_missing() -> None:
    with pytest.raises(FieldError, match=r"^name: is missing$"):
        parsed("").text("name")
    with pytest.raises(FieldError, match=r"^name: must be one of a, b, not 'c'$"):
        parsed("name=c").choice("name", ("a", "b"), "a")


@pytest.mark.parametrize(("text", "number"), [("12", 12.0), ("0.5", 0.5), ("007", 7.0)])
def test_a_decimal_is_what_it_says(text: str, number: float) -> None:
    assert parsed(urlencode({"n": text})).maybe_decimal("n") == number
    assert parsed("").maybe_decimal("n") is None


@pytest.mark.parametrize("text", ["nan", "inf", "1e3", "-1", "1.", ".5", "1.2.3", "٣", "9" * 17, "1.1234567"])
def test_another_text_is_no_decimal(text: str) -> None:
    with pytest.raises(FieldError, match=r"^n: must be a number"):
        parsed(urlencode({"n": text})).maybe_decimal("n")
