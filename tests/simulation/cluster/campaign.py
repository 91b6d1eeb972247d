"""Sums up the seeds of a campaign: what failed, how much was simulated, how fast, and the table of faults.

A seed becomes a *row*, which is JSON: rows of several runs, also of several commits, are summed up as one campaign.
Not here: who runs the seeds (run.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulation.cluster.fault_table import fault_table
from tests.simulation.cluster.world import Outcome

Row = Mapping[str, Any]


def row_of(outcome: Outcome, cpu_s: float, commit: str) -> Row:
    """One seed; `cpu_s` is the processor time that it took."""
    return {
        "commit": commit,
        "seed": outcome.seed,
        "digest": f"{outcome.digest:08x}",
        "failures": outcome.failures,
        "seconds": round(outcome.seconds, 3),
        "healed_seconds": round(outcome.healed_seconds, 3),
        "cpu_seconds": round(cpu_s, 3),
        "events": outcome.steps,
        "messages": outcome.messages,
        "acked": outcome.acked,
        "failed_records": outcome.failed_records,
        "worst_ack_ms": outcome.worst_ack_ms,
        "given_back": outcome.given_back,
        "moves": dict(outcome.moves),
        "throttles": dict(outcome.throttles),
        "faults": dict(outcome.faults),
        "producers": dict(outcome.producers),
        "snapshots": dict(outcome.snapshots),
        "security": dict(outcome.security),
        "met": {"/".join(pair): number for pair, number in outcome.met.items()},
    }


class Campaign:
    """Rows, summed up."""

    def __init__(self) -> None:
        self.seeds = 0
        self.failed: list[int] = []
        self._total: Counter[str] = Counter()
        self._seconds = self._cpu_seconds = 0.0
        self._faults: Counter[str] = Counter()
        self._met: Counter[tuple[str, str]] = Counter()
        self._producers: Counter[str] = Counter()
        self._snapshots: Counter[str] = Counter()
        self._moves: Counter[str] = Counter()
        self._security: Counter[str] = Counter()
        self._secured = 0
        self._held: list[int] = []
        """By a throttle, in each seed in which one was changed."""
        self._given_back: list[int] = []
        """In each seed with any."""

    def add(self, row: Row) -> None:
        self.seeds += 1
        if row["failures"]:
            self.failed.append(row["seed"])
        self._seconds += row["seconds"]
        self._cpu_seconds += row["cpu_seconds"]
        self._total.update({name: row[name] for name in ("events", "messages", "acked", "failed_records")})
        self._faults.update(row["faults"])
        self._producers.update(row.get("producers", {}))  # rows of older commits have none
        self._snapshots.update(row.get("snapshots", {}))
        self._moves.update(row.get("moves", {}))
        self._security.update(row.get("security", {}))
        self._secured += bool(row.get("security"))
        throttles = row.get("throttles", {})
        self._held += [throttles.get("held", 0)] if throttles.get("changed") else []
        self._given_back += filter(None, (row.get("given_back", 0),))
        for pair, number in row["met"].items():
            kind, _, condition = pair.partition("/")
            self._met[kind, condition] += number

    def lines(self) -> Iterator[str]:
        """The end of a campaign's output."""
        cpu_s = max(self._cpu_seconds, 1e-9)
        yield from fault_table(self._faults, self._met)
        yield f"producers: {', '.join(f'{name} {number:,}' for name, number in self._producers.items())}"
        yield f"snapshots: {', '.join(f'{name} {number:,}' for name, number in self._snapshots.items()) or 'none'}"
        yield f"{', '.join(f'{name} {number:,}' for name, number in sorted(self._moves.items())) or 'no moves'}"
        counts = ", ".join(f"{name} {number:,}" for name, number in sorted(self._security.items()))
        yield f"secured: {self._secured} seeds; {counts or 'nobody asked'}"
        holding = sum(map(bool, self._held))
        yield f"throttles: in {len(self._held)} seeds; copies held {sum(self._held):,}, in {holding} of them"
        yield f"elections: {sum(self._given_back):,} by schedule, in {len(self._given_back)} seeds"
        yield (
            f"{self.seeds} seeds, {len(self.failed)} failed; {self._seconds / 3600:.2f} hours simulated;"
            f" {self._total['events']:,} events, {self._total['messages']:,} messages, {self._total['acked']:,} records"
            f" acked, {self._total['failed_records']:,} refused, {self._faults.total():,} faults"
        )
        yield (
            f"{self._total['events'] / cpu_s:,.0f} events and {self._seconds / cpu_s:.1f} simulated seconds in a second"
            " of one processor"
        )
        if self.failed:
            yield f"failed: {', '.join(map(str, sorted(set(self.failed))))}"

    def __repr__(self) -> str:
        return f"Campaign({self.seeds} seeds, {len(self.failed)} failed)"
