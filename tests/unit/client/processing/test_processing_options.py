"""Promises about the options of a processor: its help and its page name each, with the default that it has.

Not here: what the options do (test_record_processor.py).
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from penstock import async_process, process
from penstock.client.processing.processing_options import ProcessingConfig, ProcessingOptions

PAGE = Path(__file__).resolve().parents[4] / "docs" / "processing.md"


def default_of(name: str) -> str:
    value = getattr(ProcessingConfig(), name)
    return f"({', '.join(each.__name__ for each in value)})" if isinstance(value, tuple) else repr(value)


def test_the_options_are_those_that_are_checked() -> None:
    assert [field.name for field in fields(ProcessingConfig)] == list(ProcessingOptions.__annotations__)


@pytest.mark.parametrize("call", [process, async_process])
def test_help_shows_every_option_with_its_default(call: object) -> None:
    listed = ", ".join(f"{name}={default_of(name)}" for name in ProcessingOptions.__annotations__)
    assert f"Options: {listed} (docs" in " ".join((call.__doc__ or "").split())


def test_the_page_shows_every_option_with_its_default() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| `(.+?)` \|", PAGE.read_text(encoding="utf-8")))
    assert {name: rows.get(name) for name in ProcessingOptions.__annotations__} == {
        name: default_of(name) for name in ProcessingOptions.__annotations__
    }
