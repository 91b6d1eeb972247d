"""Promises about what `consume --group` says it waits for: not its group, before it has asked that for a place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import pytest

import penstock
from penstock.cli.console import consume_group
from penstock.cli.console.consume_group import NO_PARTITION, GroupReading
from penstock.cli.patience import waits

Reason = Callable[[], str]


class Said:
    """The reason that a person would read at each step."""

    def __init__(self) -> None:
        self.reason: Reason = str
        self.lines: list[str] = []

    def patience(self, progress: object, reason: Reason) -> AbstractContextManager[None]:
        self.reason = reason
        return nullcontext()

    def ask(self, *_: object) -> list[Any]:
        self.lines.append(self.reason())
        return []


class FakeClient:
    """An `Admin` and a `Consumer` that have nothing."""

    def __init__(self, bootstrap: str, **options: object) -> None:
        pass

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        pass

    def subscribe(self, topics: object) -> None:
        pass

    def waiting_for(self) -> tuple[()]:
        return ()

    def assignment(self) -> tuple[()]:
        return ()


class PlainReasons:
    """The reasons as they are, without a look at the cluster."""

    def __init__(self, bootstrap: str) -> None:
        pass

    def of(self, found: object, otherwise: str) -> str:
        return otherwise


def test_a_member_that_has_reached_no_broker_does_not_blame_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Said()

    def polled(*_: object) -> list[Any]:
        said.ask()
        raise KeyboardInterrupt

    monkeypatch.setattr(penstock, "Consumer", FakeClient)
    monkeypatch.setattr(penstock, "Admin", type("FakeAdmin", (FakeClient,), {"describe_topic": said.ask}))
    monkeypatch.setattr(waits, "Reasons", PlainReasons)
    monkeypatch.setattr(consume_group, "patience", said.patience)
    monkeypatch.setattr(consume_group, "poll_once", polled)
    reading = GroupReading("g", ("t",), from_beginning=True, skip_undecodable=False, count=0)
    with pytest.raises(KeyboardInterrupt):
        reading.print_to(lambda records: None, "b")
    assert said.lines == ["no broker has described the topics yet", NO_PARTITION]
