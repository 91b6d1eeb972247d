"""The clients of one test module, each started at its first check, and what the summary says of them.

A client that cannot be had is looked for once: each of its tests is skipped with that reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

import pytest

from tests.interop.matrix.installs import MissingError
from tests.interop.matrix.run import ClientRun
from tests.interop.matrix.subjects import Subject
from tests.support.client_summary import LEFT_OUT, RAN


def pairs_at_night(pairs: Iterable[tuple[str, str]], long: Collection[tuple[str, str]]) -> list[Any]:
    """All pairs of a client and a feature for `parametrize`; those of `long` run at night alone."""
    return [pytest.param(*pair, marks=pytest.mark.long) if pair in long else pair for pair in pairs]


class Note(Protocol):
    """pytest's `record_property`."""

    def __call__(self, name: str, value: object) -> None: ...


class Runs:
    """Used by `with`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._runs: dict[str, ClientRun | MissingError] = {}

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._runs.values():
            if isinstance(run, ClientRun):
                run.__exit__()

    def require(self, client: str, feature: str, note: Note) -> None:
        """The feature works for the client, or the test fails or is skipped."""
        if client not in self._runs:
            try:
                self._runs[client] = ClientRun(self._subject, client).__enter__()
            except MissingError as error:
                self._runs[client] = error
        run = self._runs[client]
        if isinstance(run, MissingError):
            note(LEFT_OUT, f"{client} ({run})")
            pytest.skip(f"{client} is left out: {run}")
        note(RAN, f"{client} {run.version}")
        outcome = run.outcome(feature)
        assert outcome.state == "ok", str(outcome)
