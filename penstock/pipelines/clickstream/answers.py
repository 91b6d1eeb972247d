"""The right answers for a click-stream, computed from the records' kinds with plain Python: no parser, no Spark.

`Answers.of(records)` counts every kind and sums the good events by page and window. A window of a stream that ended is
final when the watermark has passed its end; `final_windows` gives those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.pipelines.clickstream.events import ClickKind, ClickRecord


@dataclass(slots=True)
class Window:
    """The sums of one page in one window."""

    views: int = 0
    orders: int = 0
    revenue_cents: int = 0


@dataclass(slots=True)
class Answers:
    """The right results of one stream."""

    window_ms: int
    kinds: Counter[ClickKind] = field(default_factory=Counter)
    windows: dict[tuple[int, str], Window] = field(default_factory=dict)
    latest_event_ms: int = 0

    @staticmethod
    def of(records: Iterable[ClickRecord], window_ms: int) -> Answers:
        answers = Answers(window_ms)
        for record in records:
            answers.take(record)
        return answers

    def take(self, record: ClickRecord) -> None:
        """Counts one record."""
        self.kinds[record.kind] += 1
        click = record.click
        if record.kind is not ClickKind.GOOD or click is None:
            return
        self.latest_event_ms = max(self.latest_event_ms, click.event_time_ms)
        start_ms = click.event_time_ms - click.event_time_ms % self.window_ms
        window = self.windows.setdefault((start_ms, click.page), Window())
        window.views += click.action == "view"
        window.orders += click.action == "order"
        window.revenue_cents += click.amount_cents or 0

    @property
    def records(self) -> int:
        """All that were sent."""
        return self.kinds.total()

    def final_windows(self, watermark_ms: int) -> dict[tuple[int, str], Window]:
        """The windows that end at or before the watermark, which is `watermark_ms` behind the latest good event."""
        final_until_ms = self.latest_event_ms - watermark_ms
        return {at: window for at, window in self.windows.items() if at[0] + self.window_ms <= final_until_ms}
