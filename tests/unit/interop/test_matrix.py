"""A row of the matrix that fails leaves nothing to the rows after it: no dead node, no client in the midst of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from tests.interop.matrix import run
from tests.interop.matrix.checks import Stage
from tests.interop.matrix.installs import Command


class Subject:
    """A cluster whose nodes fail to come back so many times."""

    name, bootstrap = "subject", "nowhere:1"
    login: ClassVar[dict[str, str]] = {}

    def __init__(self, failures: int) -> None:
        self.dead: list[int] = []
        self._failures = failures

    @contextmanager
    def down(self, node_id: int) -> Iterator[None]:
        self.dead.append(node_id)
        try:
            yield
        finally:
            self.heal()

    def heal(self) -> None:
        if self._failures:
            self._failures -= 1
            raise RuntimeError("the node ended with code 1")
        self.dead.clear()


class Client:
    """A driver's process."""

    made = 0

    def __init__(self, *_: object) -> None:
        Client.made += 1
        self.number = Client.made

    def __exit__(self, *_: object) -> None:
        """Ends at once."""


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The rows `kill`, which fails, and `next`: for each the dead nodes and the clients that it has found."""
    found: dict[str, list[Any]] = {}

    def note(name: str, stage: Stage) -> None:
        found[name] = [list(stage.subject.dead), stage.client.number, stage.reference.number]  # type: ignore[attr-defined]

    def kill(stage: Stage) -> None:
        note("kill", stage)
        with stage.subject.down(1):
            raise AssertionError("a record is lost")

    Client.made = 0
    monkeypatch.setattr(run, "CHECKS", {"kill": kill, "next": lambda stage: note("next", stage)})
    monkeypatch.setattr(run, "command_of", lambda _asked: Command(["true"], "1"))
    monkeypatch.setattr(run, "start", Client)
    return found


def test_after_a_row_that_failed_the_cluster_is_whole_and_the_clients_are_new(rows: dict[str, list[Any]]) -> None:
    kill, following = run.outcomes(Subject(failures=1), "one", ["kill", "next"])
    assert (kill.state, following.state) == ("fails", "ok")
    assert "code 1" in kill.why and "before that: a record is lost" in kill.why
    assert rows == {"kill": [[], 1, 2], "next": [[], 3, 4]}


def test_a_cluster_that_does_not_come_back_ends_the_matrix(rows: dict[str, list[Any]]) -> None:
    with pytest.raises(RuntimeError, match="ended with code 1"):
        list(run.outcomes(Subject(failures=2), "one", ["kill", "next"]))
    assert "next" not in rows
