"""One key judges values and texts alike for a node, a topic, a client and a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.config_keys import (
    INT32_MAX,
    INT64_MAX,
    REQUIRED,
    ConfigKey,
    Kind,
    boolean,
    config_text,
    did_you_mean,
    double,
    integer,
    keys_of,
    option,
    string,
    strings,
)
from penstock.errors import InvalidConfigError

BOUNDED = integer("a.b", 1, "A.", 1, 9, "ms", besides=-1)
RATIO = double("ratio", 0.5, "A share.", 0.0, 1.0)
WORD = string("word", "one", "A word.", ("one", "two"))
WORDS = strings("words", ("one",), "Words.", ("one", "two"))
FLAG = boolean("flag", False, "A flag.")


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        (BOUNDED, [1, 9, -1], [0, 10, -2]),
        (RATIO, [0.0, 1, 0.25], [-0.1, 1.1, float("nan"), float("inf")]),
        (WORD, ["two"], ["", "Two", 1]),
        (WORDS, [("one",), ("two", "one")], [(), ("one", "one"), ("one", "three")]),
        (strings("any", (), "Any."), [("x", "y")], [("x", "")]),
        (ConfigKey("n", Kind.INT, 0, "No bounds."), [-(10**30), 10**30], []),
        (ConfigKey("o", Kind.OTHER, None, "Its own code judges it."), [None, object()], []),
    ],
)
def test_a_value_fits_its_range_or_its_choices(key: ConfigKey, good: list[Any], bad: list[Any]) -> None:
    assert [key.fits(value) for value in good] == [True] * len(good)
    assert [key.fits(value) for value in bad] == [False] * len(bad)


@pytest.mark.parametrize(
    ("key", "value"), [(BOUNDED, -1), (RATIO, 0.25), (WORD, "two"), (WORDS, ("two", "one")), (FLAG, True)]
)
def test_a_text_reads_back_as_the_value_that_was_written(key: ConfigKey, value: Any) -> None:
    assert key.parse(config_text(value)) == value
    with pytest.raises(InvalidConfigError) as caught:
        key.parse("three " * 100)
    assert key.name in str(caught.value) and key.range_text in str(caught.value) and len(str(caught.value)) < 250


def test_types_and_ranges_have_kafkas_names() -> None:
    assert [key.type_name for key in (BOUNDED, RATIO, WORD, WORDS, FLAG)] == [
        "int",
        "double",
        "string",
        "list",
        "boolean",
    ]
    most, above = integer("n", 0, "N.", 0, INT32_MAX), integer("n", 0, "N.", 0, INT32_MAX + 1)
    assert (most.type_name, above.type_name) == ("int", "long")
    assert BOUNDED.range_text == "a number (int) from 1 to 9, or -1" and BOUNDED.span == "1 to 9 ms, or -1"
    assert integer("n", 0, "N.", 0, INT64_MAX).span == "from 0"
    assert strings("l", (), "L.").range_text == "a comma-separated list of texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A field of each kind that `option` tells apart."""

    needed: str = option("must be given")
    count: int = option("how many", 3, 1)
    free: int = option("any number", 7)
    big: int = option("no end", 1, 1, None)
    word: str = option("a word", "one", choices=("one", "two"))
    flag: bool = option("on or off", True)
    table: dict[str, str] = option("a table", {"a": "b"})
    acks: Any = option("checked elsewhere", "all", kind=Kind.OTHER)
    plain: int = 5


def test_the_fields_of_a_dataclass_are_keys_with_the_fields_names_and_defaults() -> None:
    keys, made = keys_of(Options), Options(needed="x")
    assert list(keys) == ["needed", "count", "free", "big", "word", "flag", "table", "acks"]
    assert keys["needed"].default is REQUIRED
    assert all(getattr(made, name) == key.default for name, key in keys.items() if key.default is not REQUIRED)
    assert made.table is not Options(needed="x").table, "nobody shares a table"
    kinds = {name: key.kind for name, key in keys.items()}
    assert kinds["count"] is kinds["free"] is kinds["big"] is Kind.INT and kinds["word"] is Kind.STRING
    assert kinds["flag"] is Kind.BOOL and kinds["table"] is kinds["acks"] is kinds["needed"] is Kind.OTHER
    assert not keys["count"].fits(INT32_MAX + 1) and keys["free"].fits(-1) and keys["big"].fits(INT64_MAX + 1)


def test_a_word_that_is_nearly_known_is_answered_with_the_known_one() -> None:
    assert did_you_mean("liger_ms", ["linger_ms", "acks"]) == "; did you mean 'linger_ms'?"
    assert did_you_mean("xyz", ["linger_ms"]) == ""
