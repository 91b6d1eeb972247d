"""The figures of a bench, by intervals: a table, one JSON document, and the panels of a plot.

`Samples.add` is called for every acked chunk or every poll, from whatever thread; the rest is worked out at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.bench.line_plot import Panel, plot
from penstock.cli.output import count, note, print_fields, print_json, print_table
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

MB = 1_000_000
INTERVALS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
ROWS_MAX = 20
"""A table longer than this is not read."""


class BenchSample(NamedTuple):
    """Records that came at one moment; `latency_ms` is their time from send to ack, None where nothing was sent."""

    at_s: float
    records: int
    size_bytes: int
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class Interval:
    """The records between `start_s` and the next interval."""

    start_s: float
    records_per_second: float
    megabytes_per_second: float
    latencies_ms: Sequence[float]


class Samples:
    """Collects; `list.append` is safe from any thread."""

    def __init__(self) -> None:
        self._samples: list[BenchSample] = []

    def __repr__(self) -> str:
        return f"Samples({len(self._samples)})"

    def add(self, at_s: float, records: int, size_bytes: int, latency_ms: float | None = None) -> None:
        """`at_s`: seconds since the bench began."""
        self._samples.append(BenchSample(at_s, records, size_bytes, latency_ms))

    def intervals(self, seconds: float) -> list[Interval]:
        """The samples in intervals of one length, at most ROWS_MAX of them; the last one may be shorter."""
        length = next((s for s in INTERVALS_S if seconds / s <= ROWS_MAX), seconds / ROWS_MAX)
        found = []
        for number in range(max(1, int(seconds / length + 0.999999))):
            start = number * length
            width = min(length, seconds - start) or length
            inside = [s for s in self._samples if start <= s.at_s < start + length]
            found.append(
                Interval(
                    start,
                    sum(s.records for s in inside) / width,
                    sum(s.size_bytes for s in inside) / width / MB,
                    [s.latency_ms for s in inside if s.latency_ms is not None],
                )
            )
        return found

    def figures(self, seconds: float) -> dict[str, Any]:
        """The figures of the whole run."""
        records, size_bytes = sum(s.records for s in self._samples), sum(s.size_bytes for s in self._samples)
        latencies = [s.latency_ms for s in self._samples if s.latency_ms is not None]
        figures: dict[str, Any] = {
            "records": records,
            "seconds": round(seconds, 3),
            "records_per_second": round(records / seconds),
            "megabytes_per_second": round(size_bytes / seconds / MB, 1),
        }
        if latencies:
            figures |= {f"ack_ms_p{part}": round(percentile(latencies, part), 1) for part in (50, 95, 99)}
        return figures


def percentile(values: Sequence[float], part: int) -> float:
    """The smallest value that at least `part` of a hundred do not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * part // 100) - 1)]


def require_plot(path: Path | None) -> None:
    """ConfigError when the plot could not be written, BEFORE the work whose result it shows."""
    if path is None:
        return
    if path.suffix != ".svg":
        raise ConfigError(f"--plot {path}: the picture is an SVG; give a name that ends in .svg")
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no directory {path.parent}; make it, or give another one")


def report(title: str, samples: Samples, seconds: float, *, as_json: bool, plot_path: Path | None) -> None:
    """Prints what was measured, and writes the plot."""
    intervals, figures = samples.intervals(seconds), samples.figures(seconds)
    if plot_path is not None:
        _write_plot(plot_path, title, intervals)
    if as_json:
        print_json({**figures, "intervals": [_interval_json(interval) for interval in intervals]})
        return
    has_acks = any(interval.latencies_ms for interval in intervals)
    columns = ["from s", "records/s", "MB/s", *(["ack p50 ms", "ack p99 ms"] if has_acks else [])]
    print_table(columns, [_row(interval, has_acks) for interval in intervals])
    print_fields(
        {name.replace("_", " "): count(value) if isinstance(value, int) else value for name, value in figures.items()}
    )
    note("bytes are those of the values; headers and protocol are not counted")
    if has_acks:
        note("ack: from send to ack, at full load, where most of it is waiting in the producer's queue")


def _write_plot(path: Path, title: str, intervals: Sequence[Interval]) -> None:
    panels = [Panel("records per second", [(i.start_s, i.records_per_second) for i in intervals])]
    acks = [(i.start_s, percentile(i.latencies_ms, 99)) for i in intervals if i.latencies_ms]
    if acks:
        panels.append(Panel("ms from send to ack, p99", acks))
    try:
        path.write_text(plot(title, panels), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--plot {path}: cannot be written ({error.strerror}); give another name") from None


def _row(interval: Interval, has_acks: bool) -> list[object]:
    row: list[object] = [
        f"{interval.start_s:g}",
        count(round(interval.records_per_second)),
        f"{interval.megabytes_per_second:.1f}",
    ]
    if has_acks:
        row += [f"{percentile(interval.latencies_ms, p):.1f}" if interval.latencies_ms else "-" for p in (50, 99)]
    return row


def _interval_json(interval: Interval) -> dict[str, Any]:
    found: dict[str, Any] = {
        "start_s": round(interval.start_s, 3),
        "records_per_second": round(interval.records_per_second),
        "megabytes_per_second": round(interval.megabytes_per_second, 1),
    }
    if interval.latencies_ms:
        found |= {f"ack_ms_p{part}": round(percentile(interval.latencies_ms, part), 1) for part in (50, 99)}
    return found
