"""The table of clients and versions in docs/kafka-clients.md, and the file that it is made from.

`results.json` has one line for each client, version and kind of cluster that was run whole: the day, how many features
passed, and which failed or are not in the client. A newer run replaces the line. The page shows what is in the file and
nothing else. A test holds the page to the file; only a run can hold the file to the clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from tests.interop.matrix.clients import CLIENTS, name_of
from tests.interop.matrix.faults import fault_of
from tests.interop.matrix.installs import ROOT
from tests.interop.matrix.table import Outcome

RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "kafka-clients.md"
BEGIN, END = "<!-- versions: `python -m tests.interop.matrix --table` writes this -->\n", "<!-- end of versions -->\n"
OURS, KAFKA = "penstock", "kafka"


@dataclass(frozen=True)
class Result:
    """One whole run of one version of a client."""

    client: str
    version: str
    cluster: str
    day: str
    passed: int
    failed: Sequence[str]
    not_offered: Sequence[str]

    @property
    def key(self) -> tuple[int, tuple[tuple[int, str], ...], str]:
        """Clients in the order of the matrix, the oldest version first."""
        parts = self.version.split(" ")[0].split(".")
        numbers = tuple((int(part), "") if part.isdigit() else (0, part) for part in parts)
        return list(CLIENTS).index(self.client), numbers, self.cluster


def load(path: Path = RESULTS) -> list[Result]:
    if not path.is_file():
        return []
    return [Result(**one) for one in json.loads(path.read_text(encoding="utf-8"))]


def keep(cluster: str, outcomes: Sequence[Outcome], day: date, path: Path = RESULTS) -> None:
    """Adds one client's run to the file. A client that could not be had is not kept."""
    states = {outcome.state for outcome in outcomes}
    if not outcomes or "missing" in states:
        return
    first = outcomes[0]
    result = Result(
        client=name_of(first.client),
        version=first.version,
        cluster=cluster,
        day=day.isoformat(),
        passed=sum(outcome.state == "ok" for outcome in outcomes),
        failed=[outcome.feature for outcome in outcomes if outcome.state == "fails"],
        not_offered=[outcome.feature for outcome in outcomes if outcome.state == "not offered"],
    )
    all_of_them = {one.key: one for one in load(path)} | {result.key: result}
    lines = [json.dumps(asdict(all_of_them[key])) for key in sorted(all_of_them)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def table(found: Iterable[Result]) -> str:
    """The section between the page's marks."""
    by_key = {one.key: one for one in found}
    ours = [one for _, one in sorted(by_key.items()) if one.cluster == OURS]
    lines = [
        "| client | version | passed | failed | not tried | run on |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in ours:
        counts = f"{one.passed} | {len(one.failed)} | {len(one.not_offered)}"
        lines.append(f"| {one.client} | {one.version} | {counts} | {one.day} |")
    failures = [line for one in ours for line in _failures(one, by_key)]
    return "\n".join(lines) + "\n" + ("\nWhat failed:\n" + "\n".join(failures) + "\n" if failures else "")


def _failures(one: Result, by_key: dict[tuple[int, tuple[tuple[int, str], ...], str], Result]) -> list[str]:
    """A line for each cause, with the features of it."""
    beside = next((other for other in by_key.values() if other.key[:2] == one.key[:2] and other.cluster == KAFKA), None)
    causes: dict[str, list[str]] = {}
    for feature in one.failed:
        fault = fault_of(one.client, one.version, feature)
        if beside is not None:
            fault += (
                " The same fails with Apache Kafka." if feature in beside.failed else " It passes with Apache Kafka."
            )
        causes.setdefault(fault, []).append(f"`{feature}`")
    return [f"- {one.client} {one.version}, {', '.join(features)}: {fault}" for fault, features in causes.items()]


def write_page(page: Path = PAGE, path: Path = RESULTS) -> None:
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{page.name} lacks the marks of the table: {BEGIN.strip()} and {END.strip()}")
    page.write_text(before + BEGIN + table(load(path)) + END + after, encoding="utf-8")
