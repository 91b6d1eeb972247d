"""Counts the time in which a coordinator's partition was watched, and tells by it how old a stamp is: by no calendar.

Records are stamped with the calendar of whichever node leads. One node's calendar may be days or years wrong, jump, and
be set right, so the difference of two stamps says nothing. A coordinator counts the time that passes while it looks
instead, on its monotonic clock, and the next one goes on from the record that it leaves:

    key      int16 1001
    value    int16 version (0), the watched time, then the stretches, oldest first

A *stretch* is a time in which one calendar was followed: its calendar and the watched time at its begin, and how far
its stamps may reach. A new one begins with each lead, and where the calendar jumps. A stamp belongs to the newest
stretch that has it, so where two have it, it is taken for the younger. A stamp below all is from before the first
record; one that no stretch has is taken for as old as this lead.

Invariant: a stretch is in the log BEFORE a record that was stamped in it (`mark`). So no stamp is ever older by the
watched time than it is. It may be younger: time in which no coordinator looked does not count, nor the end of a lead
after its last record.

Pure. Not here: what expires (groups/offsets/sweep.py, transactions/), and when the record is written (led_shard.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.kafka_codec.fields import array, int64
from broker.kafka_codec.structs import message, struct

WATCHED_KEY_TYPE: Final = 1001
APART_MS: Final = 1_000
"""The least difference by which a calendar has jumped from the one that is followed, or the machine was suspended."""
RESERVED_MS: Final = 3_600_000
"""Stamps of the next hour belong to a stretch before they are made: so a busy log has one record an hour for them."""
RENEWED_MS: Final = RESERVED_MS // 2
MARK_MS: Final = 600_000
"""The most watched time that is lost with a lead that ends."""
STRETCHES_MAX: Final = 64
"""The stretches above which the two oldest become one. The stamps of that one are all taken for as young as its end."""


@message(versions="0")
class WatchedTimeKey:
    """The key of the record, one a partition. Kafka's tools, and older releases, pass over its type."""


@struct
class WatchedStretch:
    calendar_ms: int = int64()
    watched_ms: int = int64()
    length_ms: int = int64()


@message(versions="0", flexible="0+")
class WatchedTimeValue:
    watched_ms: int = int64()
    stretches: list[WatchedStretch] = array(WatchedStretch)


class _Stretch(NamedTuple):
    """A time in which one calendar was followed. Stamps from `calendar_ms` up to `length_ms` later belong to it."""

    calendar_ms: int
    watched_ms: int
    length_ms: int

    @property
    def end_ms(self) -> int:
        return self.calendar_ms + self.length_ms


class WatchedTime:
    """The watched time of one partition, in one lead."""

    def __init__(self, mark_every_ms: int = MARK_MS) -> None:
        """`mark_every_ms` is the interval at which expired state is looked for."""
        self._mark_every_ms = min(mark_every_ms, MARK_MS)
        self._stretches: list[_Stretch] = []
        """The stretches, oldest first. Once this lead looks, the last one is its own."""
        self._ms = self._saved_ms = 0
        """Now, and in the last record."""
        self._origin_ms: int | None = None
        """The monotonic time at which nothing was watched; None before the first look."""
        self._lead_ms = 0
        self._is_marked = self._is_saved = False
        """The log has the last stretch; it has a record at all."""

    # -- records -------------------------------------------------------------------------------------------------------

    def replay(self, key: WatchedTimeKey, value: WatchedTimeValue | None) -> None:
        """A record of an earlier lead."""
        if value is not None and self._origin_ms is None:
            self._stretches = [_Stretch(one.calendar_ms, one.watched_ms, one.length_ms) for one in value.stretches]
            self._ms = self._saved_ms = value.watched_ms
            self._is_saved = True

    def mark(self, *, is_written: bool) -> tuple[WatchedTimeKey, WatchedTimeValue] | None:
        """The record to be written BEFORE those of this turn, if one is due; `is_written`: there are some."""
        is_due = is_written and not self._is_marked
        is_due = is_due or (self._is_saved and self._ms - self._saved_ms >= self._mark_every_ms)
        if not is_due or self._origin_ms is None:
            return None
        self._is_marked = self._is_saved = True
        self._saved_ms = self._ms
        stretches = [
            WatchedStretch(calendar_ms=one.calendar_ms, watched_ms=one.watched_ms, length_ms=one.length_ms)
            for one in self._stretches
        ]
        return WatchedTimeKey(), WatchedTimeValue(watched_ms=self._ms, stretches=stretches)

    # -- time ----------------------------------------------------------------------------------------------------------

    def look(self, now_ms: int, wall_ms: int) -> None:
        """Counts the time up to a decision; called at each. `now_ms` is monotonic, and the records of this turn are
        stamped with `wall_ms`."""
        if self._origin_ms is None:
            self._origin_ms, self._lead_ms = now_ms - self._ms, self._ms
            self._begin(wall_ms)
            return
        self._ms = max(now_ms - self._origin_ms, self._ms)
        last = self._stretches[-1]
        if abs(wall_ms - last.calendar_ms - (self._ms - last.watched_ms)) > APART_MS:
            self._begin(wall_ms)
        elif wall_ms + RENEWED_MS > last.end_ms:
            self._stretches[-1] = last._replace(length_ms=wall_ms + RESERVED_MS - last.calendar_ms)
            self._is_marked = False

    def _begin(self, wall_ms: int) -> None:
        self._stretches.append(_Stretch(wall_ms, self._ms, RESERVED_MS))
        self._is_marked = False
        if len(self._stretches) > STRETCHES_MAX:
            first, second, third = self._stretches[:3]
            begin_ms = min(first.calendar_ms, second.calendar_ms)
            length_ms = max(first.end_ms, second.end_ms) - begin_ms
            self._stretches[:2] = [_Stretch(begin_ms, third.watched_ms, length_ms)]

    def age_ms(self, stamp_ms: int) -> int:
        """How long a thing with this stamp was watched. AFTER the first look."""
        return max(self._ms - self._watched_at(stamp_ms), 0)

    def _watched_at(self, stamp_ms: int) -> int:
        until_ms = self._ms
        for one in reversed(self._stretches):
            if one.calendar_ms <= stamp_ms <= one.end_ms:
                return min(one.watched_ms + stamp_ms - one.calendar_ms, until_ms)
            until_ms = one.watched_ms
        first = self._stretches[0]
        return first.watched_ms if stamp_ms < first.calendar_ms else self._lead_ms

    def __repr__(self) -> str:
        return f"WatchedTime({self._ms} ms, {len(self._stretches)} stretches)"
