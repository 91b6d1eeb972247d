"""Lines of the last hour: one subject, of one name or of the largest ones, as a chart, a picture and a table.

Its JSON twin is what the charts of other pages are drawn from.
"""

from __future__ import annotations

from typing import Final

from penstock.console.failures import NotFoundError
from penstock.console.fields import FieldError
from penstock.console.page import PageAsked
from penstock.console.pages.watched import WatchNote, may_see, visible_groups, visible_topics, watch_note
from penstock.console.pictures.lines_picture import lines_svg
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.last_hour import WHOLE_CLUSTER, Subject, topic_of_key
from penstock.lazy_dataclass import dataclass

LINES_MAX: Final = 8

WORDS: Final = {
    Subject.TOPIC_RECORDS: ("Records written", "records/s"),
    Subject.TOPIC_BYTES: ("Bytes written, about", "B/s"),
    Subject.TOPIC_UNDER_REPLICATED: ("Partitions with a replica that is not in sync", ""),
    Subject.GROUP_LAG: ("Lag", "records"),
    Subject.GROUP_RECORDS: ("Records committed", "records/s"),
    Subject.PARTITION_LAG: ("Lag by partition, last minutes", "records"),
    Subject.BROKER_LEADERS: ("Partitions led", ""),
    Subject.BROKER_PROBE_MS: ("Answer to a small question", "ms"),
    Subject.CLUSTER_RECORDS: ("Records written, all topics", "records/s"),
    Subject.CLUSTER_BYTES: ("Bytes written, all topics, about", "B/s"),
    Subject.CLUSTER_LAG: ("Lag of all groups", "records"),
    Subject.CLUSTER_UNDER_REPLICATED: ("Partitions with a replica that is not in sync", ""),
    Subject.CLUSTER_OFFLINE: ("Partitions without a leader", ""),
}
"""The title and the unit of each subject."""


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """One line: a number for each step, the oldest first, null where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class SeriesView:
    """Lines with a common subject. `newest_ms` is the time of their last number."""

    subject: str
    name: str
    title: str
    unit: str
    step_ms: int
    newest_ms: int
    lines: tuple[SeriesLine, ...]
    note: WatchNote

    def picture(self) -> str:
        """The lines as SVG."""
        named = {line.name: line.values for line in self.lines}
        return lines_svg(self.title, named, unit=self.unit, picture_id="lines")

    def table(self) -> list[tuple[int, list[float | None]]]:
        """Numbers minute by minute, the newest first, with their times."""
        a_minute = max(60_000 // self.step_ms, 1)
        length = max((len(line.values) for line in self.lines), default=0)
        found = []
        for at in range(length - 1, -1, -a_minute):
            numbers = [line.values[at] if at < len(line.values) else None for line in self.lines]
            if any(number is not None for number in numbers):
                found.append((self.newest_ms - (length - 1 - at) * self.step_ms, numbers))
        return found


async def show_series(asked: PageAsked) -> SeriesView:
    """One name's line; without a name those of the largest."""
    subject = _subject(asked.fields.text("subject"))
    name = asked.fields.text("name", "")
    watch = asked.watch
    names: list[str] = []
    if watch is not None:
        names = await _names(asked, watch, subject, name)
    title, unit = WORDS[subject]
    return SeriesView(
        subject=subject,
        name=name,
        title=title,
        unit=unit,
        step_ms=watch.hour.limits.step_ms if watch is not None else 0,
        newest_ms=watch.newest_wall_ms if watch is not None else 0,
        lines=tuple(
            SeriesLine(one.partition(" ")[0] if subject is Subject.PARTITION_LAG else one, tuple(values))
            for one in names
            if watch is not None and (values := [_rounded(n) for n in watch.hour.series(subject, one)])
        ),
        note=watch_note(asked),
    )


async def _names(asked: PageAsked, watch: ClusterWatch, subject: Subject, name: str) -> list[str]:
    """The names of the lines that are wanted, and that the person may see."""
    kind = subject.partition("-")[0]
    if kind == "cluster":
        return [WHOLE_CLUSTER]
    if name:
        if not await may_see(asked, subject, f" {name}" if kind == "partition" else name):
            raise NotFoundError(f"there is no {kind} {name!r} that you may see")
        if kind != "partition":
            return [name]
        topics = await visible_topics(asked)
        lagging = [one for one in watch.hour.lagging_partitions(name) if topics is None or topic_of_key(one) in topics]
        return sorted(lagging, key=lambda one: -(watch.hour.newest(subject, one) or 0))[:LINES_MAX]
    if kind == "partition":
        raise FieldError("name", "is missing: the group")
    seen = {"topic": visible_topics, "group": visible_groups}.get(kind)
    visible = await seen(asked) if seen is not None else None
    count = LINES_MAX if visible is None else watch.hour.limits.topics_max
    largest = [one for one, _ in watch.hour.largest(subject, count) if visible is None or one in visible]
    return sorted(largest[:LINES_MAX])


def _subject(text: str) -> Subject:
    try:
        return Subject(text)
    except ValueError:
        raise FieldError("subject", f"must be one of {', '.join(Subject)}") from None


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
