"""The demo's result, as one table for people and one JSON object for scripts, with a verdict on every promise.

Pure but for printing. Every check has a name, so that a failed run names the promise that did not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.cli.demo.reading import Table
from penstock.cli.demo.text import Sums, Text
from penstock.cli.output import note, print_fields, print_json, print_table
from penstock.client.producer.producer_statistics import ProducerStatistics
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Crash:
    """A node that was killed; `failover_ms` is None where the text had ended before."""

    node: int
    failover_ms: int | None
    back_in_isr_ms: int

    def text(self, what: str) -> str:
        failover = "no line was left to send" if self.failover_ms is None else f"{what} {self.failover_ms} ms"
        return f"node {self.node}: {failover}; back in every ISR {self.back_in_isr_ms} ms after its start"


@dataclass(frozen=True, slots=True)
class Report:
    """One whole run; `table` is None without Spark. `seconds`: how long its parts took."""

    text: Text
    nodes: int
    sent: Sums
    counts: ProducerStatistics
    leader: Crash
    controller: Crash
    read: Sums
    table: Table | None
    seconds: Mapping[str, float]

    @property
    def lost(self) -> int:
        """Lines that were sent and are not in the log."""
        return self.sent.missing_in(self.read)

    @property
    def duplicates(self) -> int:
        """Records of the log beyond those that were sent."""
        return self.read.missing_in(self.sent)

    def checks(self) -> dict[str, bool]:
        """Every promise by name."""
        sent, read = self.sent, self.read
        checks = {
            "every record acked": self.counts.records_acked == sent.records and self.counts.records_failed == 0,
            "nothing lost": self.lost == 0,
            "nothing twice": self.duplicates == 0,
            "checksum out = in, in the order of every file": read.checksum == sent.checksum,
        }
        if self.table is not None:
            checks["rows in Parquet = records out"] = self.table.sums.records == read.records
            checks["checksum in Parquet = in, in the order of every file"] = self.table.sums.checksum == sent.checksum
        return checks

    @property
    def ok(self) -> bool:
        return all(self.checks().values())

    def as_json(self) -> dict[str, Any]:
        """One object with everything that the table shows."""
        table = self.table
        sums = {"in": self.sent, "out": self.read, "parquet": table and table.sums}
        seconds = {**self.seconds, **({"spark_start": table.start_seconds, "spark": table.seconds} if table else {})}
        return {
            "ok": self.ok,
            "checks": self.checks(),
            "source": {"path": str(self.text.root), "files": len(self.text.files)},
            "records": {name: found and found.records for name, found in sums.items()},
            "bytes": {name: found and found.size_bytes for name, found in sums.items()},
            "checksum": {name: found and found.checksum for name, found in sums.items()},
            "lost": self.lost,
            "duplicates_by_retry": self.duplicates,
            "records_retried": self.counts.records_retried,
            "leader_killed": asdict(self.leader),
            "controller_killed": asdict(self.controller),
            "seconds": {name: round(taken, 3) for name, taken in seconds.items()},
            "records_per_second": {
                "stream": _rate(self.sent.records, self.seconds["stream"]),
                "read_back": _rate(self.read.records, self.seconds["read_back"]),
                "spark": table and _rate(table.sums.records, table.seconds - table.start_seconds),
            },
        }


def print_report(report: Report, as_json: bool) -> None:
    """Prints the table or the object on stdout, and the failed checks on stderr."""
    shown = report.as_json()
    if as_json:
        print_json(shown)
    else:
        _print_tables(report, shown)
    for name, holds in report.checks().items():
        if not holds:
            note(f"FAILED: {name}")


def _print_tables(report: Report, shown: dict[str, Any]) -> None:
    def row(title: str, name: str, form: str) -> list[str]:
        return [title, *("-" if value is None else format(value, form) for value in shown[name].values())]

    rows = [row("records", "records", ","), row("bytes", "bytes", ","), row("SHA-256", "checksum", ".16")]
    print_table(["", "in", "out", "in Parquet"], [*rows, row("records per second", "records_per_second", ",")])
    equal = all(holds for name, holds in report.checks().items() if name.startswith("checksum"))
    print_fields(
        {
            "checksums": "equal" if equal else "NOT EQUAL",
            "lost": shown["lost"],
            "duplicates by retry": f"{shown['duplicates_by_retry']:,} (of {shown['records_retried']:,} sent again)",
            "leader killed": report.leader.text("its partition acked again after"),
            "controller killed": report.controller.text("the next topic was created after"),
            "started": f"{report.nodes} nodes ready in {report.seconds['start']:.1f} s",
            "result": "everything holds" if report.ok else "FAILED",
        }
    )


def _rate(records: int, seconds: float) -> int:
    return round(records / seconds) if seconds > 0 else 0
