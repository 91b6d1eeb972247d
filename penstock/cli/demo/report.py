"""The demo's result, as one table for people and one JSON object for scripts, with a verdict on every promise.

Pure but for printing. Every check has a name, so that a failed run names the promise that did not hold.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from penstock.cli.demo.faults import Fault, Faults
from penstock.cli.demo.source import SourcePlan
from penstock.cli.demo.stream import Streamed, Sums
from penstock.cli.demo.verify import ParquetRead, ReadBack
from penstock.cli.output import note, print_fields, print_json, print_table

NONE = "-"
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class TableRun:
    """The Spark pipeline's run and the content of its table; `start_seconds` is the time that Spark took to start."""

    parquet: ParquetRead
    seconds: float
    start_seconds: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """One whole run; `table` is None without Spark."""

    plan: SourcePlan
    nodes: int
    start_seconds: float
    streamed: Streamed
    faults: Faults
    read: ReadBack
    table: TableRun | None

    @property
    def lost(self) -> int:
        """Lines that were acked and are not in the log."""
        found = self.read.sums
        return sum(max(0, file.lines - (found[key].lines if key in found else 0)) for key, file in self._in.items())

    @property
    def _in(self) -> Sums:
        return self.streamed.sums

    def checks(self) -> dict[str, bool]:
        """Every promise by name."""
        streamed, read = self.streamed, self.read
        checks = {
            "every record acked": streamed.acked == streamed.records and streamed.failed == 0,
            "nothing lost": self.lost == 0,
            "order kept in every file": read.misplaced == 0,
            "out = in + duplicates": read.records == streamed.records + len(read.duplicates),
            "checksum out = in": read.sums == self._in,
        }
        if self.table is not None:
            checks["rows in Parquet = records out"] = self.table.parquet.rows == read.records
            checks["checksum in Parquet = in"] = self.table.parquet.sums == self._in
        return checks

    @property
    def ok(self) -> bool:
        return all(self.checks().values())

    def as_json(self) -> dict[str, Any]:
        """One object with everything that the table shows."""
        streamed, read, table = self.streamed, self.read, self.table
        return {
            "ok": self.ok,
            "checks": self.checks(),
            "source": {
                "path": str(self.plan.root),
                "files": len(self.plan.files),
                "left_out_bytes": self.plan.left_out_bytes,
            },
            "nodes": self.nodes,
            "start_seconds": round(self.start_seconds, 3),
            "records": {"in": streamed.records, "out": read.records, "parquet": table and table.parquet.rows},
            "bytes": {"in": streamed.size_bytes, "out": read.size_bytes, "parquet": table and table.parquet.size_bytes},
            "checksum": {
                "in": checksum(self._in),
                "out": checksum(read.sums),
                "parquet": table and checksum(table.parquet.sums),
            },
            "lost": self.lost,
            "duplicates_by_retry": len(read.duplicates),
            "records_retried": streamed.retried,
            "leader_killed": _fault_json(self.faults.leader),
            "controller_killed": _fault_json(self.faults.controller),
            "seconds": {
                "stream": round(streamed.seconds, 3),
                "read_back": round(read.seconds, 3),
                "spark": table and round(table.seconds, 3),
                "spark_start": table and round(table.start_seconds, 3),
            },
            "records_per_second": {
                "stream": _rate(streamed.records, streamed.seconds),
                "read_back": _rate(read.records, read.seconds),
                "spark": table and _rate(table.parquet.rows, table.seconds - table.start_seconds),
            },
        }


def print_report(report: RunReport, as_json: bool) -> None:
    """Prints the table or the object on stdout, and the failed checks on stderr."""
    told = report.as_json()
    if as_json:
        print_json(told)
    else:
        _print_tables(report, told)
    for name, holds in report.checks().items():
        if not holds:
            note(f"FAILED: {name}")


def checksum(sums: Sums) -> str:
    """One SHA-256 over all files: each key with the SHA-256 of its lines, by key."""
    whole = hashlib.sha256()
    for key, file in sorted(sums.items()):
        whole.update(len(key).to_bytes(4, "big") + key + file.sha256)
    return whole.hexdigest()


def _print_tables(report: RunReport, told: dict[str, Any]) -> None:
    def row(title: str, name: str, unit: str = "") -> list[str]:
        values = (told[name].get(column) for column in ("in", "out", "parquet"))
        return [title, *(NONE if value is None else f"{value:,}{unit}" for value in values)]

    sums = [NONE if value is None else value[:16] for value in told["checksum"].values()]
    rates = [NONE if rate is None else f"{rate:,}" for rate in told["records_per_second"].values()]
    print_table(
        ["", "in", "out", "in Parquet"],
        [row("records", "records"), row("bytes", "bytes"), ["SHA-256", *sums], ["records per second", *rates]],
    )
    equal = all(holds for name, holds in report.checks().items() if name.startswith("checksum"))
    print_fields(
        {
            "checksums": "equal" if equal else "NOT EQUAL",
            "lost": told["lost"],
            "duplicates by retry": f"{told['duplicates_by_retry']:,} (of {told['records_retried']:,} sent again)",
            "leader killed": _fault_text(report.faults.leader, "its partitions acked again after"),
            "controller killed": _fault_text(report.faults.controller, "the next topic was created after"),
            "started": f"{report.nodes} nodes ready in {report.start_seconds:.1f} s",
            "result": "everything holds" if report.ok else "FAILED",
        }
    )


def _fault_text(fault: Fault, what: str) -> str:
    failover = (
        "no record was left for its partitions" if fault.failover_ms is None else f"{what} {fault.failover_ms} ms"
    )
    return f"node {fault.node_id}: {failover}; back in every ISR {fault.back_ms} ms after its start"


def _fault_json(fault: Fault) -> dict[str, int | None]:
    return {
        "node": fault.node_id,
        "partitions_led": fault.partitions,
        "failover_ms": fault.failover_ms,
        "back_in_isr_ms": fault.back_ms,
    }


def _rate(records: int, seconds: float) -> int:
    return round(records / seconds) if seconds > 0 else 0
