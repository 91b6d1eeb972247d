"""The start and the end of `penstock consume`: by offset, from the end backwards, or by time.

Not here: the end that a log had when the command began (consume_ends.py), and the number of records (consume.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from penstock.written.numbers import INT64_MAX, parse_number
from penstock.written.times import MOMENT_FORMS, moment_ms

if TYPE_CHECKING:
    from penstock import Consumer

BEGINNING, END = "beginning", "end"


@dataclass(frozen=True, slots=True)
class ConsumeRange:
    """The range that a user asked for: `start` is BEGINNING, END, an offset, or -n for the last n of each partition."""

    start: str | int = END
    from_ms: int | None = None
    until_ms: int | None = None

    @property
    def offset_reset(self) -> Literal["none", "latest"]:
        """An offset that was asked for and is not there is an error, with both bounds; it is not another place."""
        return "none" if isinstance(self.start, int) and self.start >= 0 else "latest"

    def seek(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Puts the consumer, which has the partitions assigned, where it begins."""
        if self.from_ms is not None:
            found = consumer.offsets_for_times(dict.fromkeys(partitions, self.from_ms))
            for tp, place in found.items():
                if place is None:
                    consumer.seek_to_end(tp)
                else:
                    consumer.seek(tp, place.offset)
        elif self.start == BEGINNING:
            consumer.seek_to_beginning()
        elif self.start == END:
            consumer.seek_to_end()
        elif isinstance(self.start, int) and self.start >= 0:
            for tp in partitions:
                consumer.seek(tp, self.start)
        else:
            self._seek_back(consumer, partitions)

    def _seek_back(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        firsts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for tp in partitions:
            consumer.seek(tp, max(firsts[tp], ends[tp] + int(self.start)))

    def limits(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset before which each partition is read; only where a time bounds it."""
        if self.until_ms is None:
            return {}
        found = consumer.offsets_for_times(dict.fromkeys(partitions, self.until_ms))
        return {tp: place.offset for tp, place in found.items() if place is not None}


def parse_range(
    offset: str, from_time: str, until_time: str, now_ms: int, *, from_beginning: bool = False
) -> ConsumeRange:
    """The range that the options mean, "" where one was not given; ConfigError where two of them begin somewhere."""
    given = [
        name
        for name, value in (
            ("--from-beginning", from_beginning),
            ("--offset", offset),
            ("--from-time", from_time),
        )
        if value
    ]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: each says where to begin; keep one")
    start = BEGINNING if from_beginning else _parse_offset(offset)
    from_ms = parse_moment_ms("--from-time", from_time, now_ms) if from_time else None
    until_ms = parse_moment_ms("--until-time", until_time, now_ms) if until_time else None
    if from_ms is not None and until_ms is not None and until_ms <= from_ms:
        raise ConfigError(f"--until-time {until_time}: must be later than --from-time {from_time}")
    return ConsumeRange(start, from_ms, until_ms)


def parse_moment_ms(option: str, text: str, now_ms: int) -> int:
    """A time, or a time before now, as ms since 1970."""
    if (found := moment_ms(text, now_ms)) is None:
        raise ConfigError(f"{option} {text}: must be {MOMENT_FORMS}")
    return found


def _parse_offset(text: str) -> str | int:
    if text in ("", END):
        return END
    if text == BEGINNING:
        return BEGINNING
    number = parse_number(text.removeprefix("-"), INT64_MAX)
    if number is None:
        raise ConfigError(f"--offset {text}: must be {BEGINNING}, {END}, an offset, or -N for the last N records")
    if not text.startswith("-"):
        return number
    return -number if number else END
