"""The matrix as text: a row a feature, a column a client, and below it why something failed or is not offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MARKS = {"ok": "ok", "fails": "FAILS", "not offered": "-", "missing": "?"}


@dataclass(frozen=True)
class Outcome:
    client: str
    feature: str
    state: str
    why: str = ""
    version: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        tail = f": {self.why}" if self.why else ""
        return f"{self.client:18} {self.feature:16} {self.state} ({self.seconds:.1f} s){tail}"


def print_table(subject: str, clients: Sequence[str], features: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    found = {(outcome.client, outcome.feature): outcome for outcome in outcomes}
    missing = {outcome.client for outcome in outcomes if outcome.state == "missing"}
    versions = {outcome.client: outcome.version for outcome in outcomes}
    width = max(len(client) for client in clients) + 2
    first = max(len(feature) for feature in [*features, subject]) + 2
    print(f"\n{subject:{first}}" + "".join(f"{client:{width}}" for client in clients))
    print(" " * first + "".join(f"{versions.get(client, ''):{width}}" for client in clients))
    for feature in features:
        states = ["missing" if c in missing else found[c, feature].state for c in clients]
        print(f"{feature:{first}}" + "".join(f"{MARKS[state]:{width}}" for state in states))
    for state, title in (("fails", "Fails"), ("not offered", "- not offered"), ("missing", "? not here")):
        lines = [outcome for outcome in outcomes if outcome.state == state]
        if lines:
            print(f"\n{title}:")
        for outcome in lines:
            print(f"  {outcome.client} {outcome.feature}: {outcome.why}")
    counts = {state: sum(outcome.state == state for outcome in outcomes) for state in MARKS}
    print("\n" + ", ".join(f"{count} {state}" for state, count in counts.items() if count))
