"""Decides whether the wall clock can be trusted, so that a clock that jumps to 2106 does not make all data old.

The wall clock should advance as the time since boot does. It is trusted as long as the two differ by less than an
hour from one look to the next; a slow correction is followed. After a larger jump, in either direction, nothing is
deleted by age until the clock is right again, or until a person has checked the clock and started the node again. A
suspended machine is no jump: the time since boot includes it.

A clock that is wrong from the start never jumps. So a broker tells its calendar to the controller, which compares it
with those of the other brokers (`metadata/controller/calendars.py`). Nothing is deleted by age before its first
verdict, nor while the verdict is that this calendar is apart. A clock that has jumped and now agrees with other brokers
is right. Where there never was another broker, only jumps are seen; the first broker of a cluster waits again once
there are others. A broker that is left alone keeps what was found while there were.

A leader stamps, too: markers, and the records of a topic with LogAppendTime; and it holds producers' times against its
own. A stamp of 1970 would make new records old for every broker. So `StampClock` goes on from the calendar of most
brokers while this one is more than an hour behind it. It corrects no calendar that is ahead: its stamps keep records
for longer, which loses none, and where two of three machines begin in 1970 the one that is ahead is right.
Before the first verdict its stamps are its own: so a broker leads nothing before
(node/registration/broker_lifecycle.py).

Not here: coordinators, which count time by no calendar (coordination/watched_time.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.clock import Clock
from penstock.messages.nodes.brokers import CalendarVerdict

_log = logging.getLogger(__name__)

JUMP_MS_MAX = 60 * 60 * 1000
"""More than a time service ever corrects at once, less than any retention that a person sets."""
UNCOMPARED_MS = 10 * 60 * 1000
"""A comparison that the others hold up for longer is a fault: a disk may fill meanwhile. A start takes seconds."""


class StampClock(Clock):
    """The clock of leaders' appends; see the module. Its calendar is the guard's."""

    def __init__(self, clock: Clock, stamp_ms: Callable[[], int]) -> None:
        self._clock, self._stamp_ms = clock, stamp_ms

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def boot_ms(self) -> int:
        return self._clock.boot_ms()

    def wall_ms(self) -> int:
        return self._stamp_ms()

    def __repr__(self) -> str:
        return f"StampClock({self._clock!r})"


class WallClockGuard:
    """One per broker, for all jobs that delete by age."""

    def __init__(self, clock: Clock, *, is_compared: bool = False) -> None:
        """`is_compared`: with the calendars of other brokers, by `judged`; nothing is believed before."""
        self._clock = clock
        self._offset_ms = clock.wall_ms() - clock.boot_ms()
        self.jumps = 0
        self.off_ms = 0
        """The time by which this calendar is ahead of the middle one of the brokers; negative: behind."""
        self._has_jumped = self._is_apart = False
        self._waits, self._was_alone = is_compared, False
        self._waits_since_ms = clock.now_ms()
        self._sent_offset_ms = self._offset_ms
        """The difference of the calendar that the controller was told last from the time since boot. The clock may jump
        BEFORE the verdict comes, which is not over the calendar of then."""
        self._most_offset_ms: int | None = None
        """The difference of most brokers' calendars from the time since boot, by the last verdict; None if nothing was
        compared."""
        self.stamps = StampClock(clock, self.stamp_ms)

    @property
    def awaits_verdict(self) -> bool:
        """True before the first verdict, and while brokers that have come since have not told their calendars."""
        return self._waits

    @property
    def was_alone(self) -> bool:
        """True if there was no other calendar to compare this one with when it was judged last."""
        return self._was_alone

    @property
    def is_believed(self) -> bool:
        """False from a jump, or a verdict that this calendar is apart, until it is right again."""
        return not self._has_jumped and not self._is_apart

    @property
    def fault(self) -> str:
        """The reason why nothing is deleted by age; empty if there is no fault."""
        if self._is_apart:
            side = "ahead of" if self.off_ms > 0 else "behind"
            return f"the clock is {abs(self.off_ms) // 1000} s {side} those of other brokers"
        if self._has_jumped:
            return "the clock has jumped, and no other broker agrees with it"
        waited_ms = self._clock.now_ms() - self._waits_since_ms
        if self._waits and waited_ms >= UNCOMPARED_MS:
            return (
                f"for {waited_ms // 1000} s too few of the registered brokers have told a clock to compare with:"
                " start them, or unregister those that are gone for good"
            )
        return ""

    def calendar_ms(self) -> int:
        """The wall time that the controller is told."""
        wall_ms = self._clock.wall_ms()
        self._sent_offset_ms = wall_ms - self._clock.boot_ms()
        return wall_ms

    def judged(self, verdict: CalendarVerdict, off_ms: int) -> None:
        """The controller has compared this calendar with those of the other brokers. A controller of an older release
        compares none; so what a newer one has found stays."""
        if verdict is CalendarVerdict.UNSPECIFIED and self._most_offset_ms is not None:
            self._waits = False  # no comparison will come
            return
        if verdict is CalendarVerdict.ALONE and self._most_offset_ms is not None:
            self._on_left_alone(self._most_offset_ms)
            return
        self.off_ms = off_ms
        if verdict is CalendarVerdict.UNSETTLED:
            if self._was_alone and not self._waits:  # there are others by now, who have not told theirs
                self._waits, self._waits_since_ms = True, self._clock.now_ms()
            return
        self._was_alone = verdict is CalendarVerdict.ALONE
        self._note_most(verdict, off_ms)
        was_believed, self._waits = self.is_believed, False
        self._is_apart = verdict is CalendarVerdict.APART
        if self._is_apart and was_believed:
            _log.error("%s: nothing is deleted by age until they agree. Check the time of this machine", self.fault)
        if verdict is CalendarVerdict.AGREES:
            self._has_jumped = False
            self._offset_ms = self._sent_offset_ms
        if not was_believed and self.is_believed:
            _log.warning("the clock agrees with those of most brokers: records are deleted by age again")

    def _on_left_alone(self, most_offset_ms: int) -> None:
        """The other brokers are gone, which makes no wrong calendar right: what was found with them stays, until this
        calendar is set to what theirs was."""
        self._was_alone, self._waits = True, False
        if not self.is_believed and abs(self._sent_offset_ms - most_offset_ms) <= JUMP_MS_MAX:
            self._is_apart = self._has_jumped = False
            self._offset_ms = self._sent_offset_ms
            _log.warning("the clock is as those of most brokers were: records are deleted by age again")

    def _note_most(self, verdict: CalendarVerdict, off_ms: int) -> None:
        """The middle one of calendars that are all apart may be wrong, too. So while this one is apart, a middle one
        that is further behind than what this process has agreed with is not followed."""
        if verdict is CalendarVerdict.AGREES:
            self._most_offset_ms = self._sent_offset_ms
        elif verdict is CalendarVerdict.APART:
            middle_ms = self._sent_offset_ms - off_ms
            self._most_offset_ms = max(middle_ms, middle_ms if self._most_offset_ms is None else self._most_offset_ms)
        else:
            self._most_offset_ms = None

    def believed_wall_ms(self) -> int | None:
        """The wall time, or None while nothing may be deleted by it."""
        wall_ms = self._clock.wall_ms()
        jump_ms = wall_ms - self._clock.boot_ms() - self._offset_ms
        if abs(jump_ms) <= JUMP_MS_MAX:
            if self._has_jumped and not self._is_apart:
                _log.warning("the clock is right again: records are deleted by age again")
            self._has_jumped = False
            self._offset_ms += jump_ms
            return None if self._waits or self._is_apart else wall_ms
        self.jumps += not self._has_jumped
        self._has_jumped = True
        _log.error(
            "the clock has jumped by %d s, to %d: nothing is deleted by age until the clock is right again, or this "
            "node is started again. Check the machine's time",
            jump_ms // 1000,
            wall_ms,
        )
        return None

    def stamp_ms(self) -> int:
        """The wall time of what this broker stamps: its own, or that of most brokers where its own is far behind."""
        wall_ms = self._clock.wall_ms()
        if self._most_offset_ms is None:
            return wall_ms
        of_most_ms = self._clock.boot_ms() + self._most_offset_ms
        return wall_ms if wall_ms >= of_most_ms - JUMP_MS_MAX else of_most_ms

    def __repr__(self) -> str:
        return f"WallClockGuard({'believed' if self.is_believed else 'not believed'}, {self.jumps} jumps)"
