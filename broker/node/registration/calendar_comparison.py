"""Decides how long a broker waits for the verdict over its calendar before it asks to serve. Pure; times are monotonic.

    caught up ──► waits for a verdict ──► asks to serve
                    │    ▲     └─ a session of one controller is over: the others may be gone
                    └────┘ another controller, or one that answers again: it has to hear the others first

A broker that is alone serves. It tells its calendar at once when others come, and hurries until that was compared: they
lead nothing before. Not here: heartbeats (broker_lifecycle.py), the verdict (metadata/controller/calendars.py), and
what follows from it (broker/jobs/wall_clock.py).
"""

from __future__ import annotations

import logging
from collections.abc import Set
from typing import Final, Protocol

from penstock.messages.nodes.brokers import CalendarVerdict
from penstock.types import NO_EPOCH

_log = logging.getLogger(__name__)

COMPARED_ANEW_MAX: Final = 3
"""A broker waits for its verdict this many sessions more at most, however often controllers change."""


class SharedCalendar(Protocol):
    """This node's calendar, which is compared with those of other brokers."""

    def calendar_ms(self) -> int: ...

    def judged(self, verdict: CalendarVerdict, off_ms: int) -> None: ...

    @property
    def awaits_verdict(self) -> bool:
        """True before the first verdict, and while others have not told the controller theirs."""
        ...

    @property
    def was_alone(self) -> bool:
        """True if there was no other calendar to compare it with when it was judged last."""
        ...


class NoCalendar(SharedCalendar):
    """A calendar that is not compared."""

    awaits_verdict = was_alone = False

    def calendar_ms(self) -> int:
        return 0

    def judged(self, verdict: CalendarVerdict, off_ms: int) -> None:
        """Nothing depends on it."""


NO_CALENDAR: Final = NoCalendar()


class CalendarComparison:
    """The wait of one broker."""

    def __init__(self, broker_id: int, calendar: SharedCalendar, session_timeout_ms: int) -> None:
        self._broker_id, self.calendar, self._session_ms = broker_id, calendar, session_timeout_ms
        self._is_caught_up = False
        self._until_ms: float | None = None
        """It waits until then; None: not yet, or no more."""
        self._anew = 0
        self._is_answered = True
        """False while the last heartbeat has no answer. The heartbeat that asks to serve must not be the first that a
        controller hears."""
        self._controller_epoch = NO_EPOCH
        self._hurries_until_ms = 0.0
        """Other brokers have come, and wait until this one's calendar is compared with theirs."""
        self._neighbours: Set[int] = frozenset()

    def caught_up(self, now_ms: float) -> None:
        """The broker has acted on an image with its own registration. The wait begins."""
        self._is_caught_up, self._until_ms = True, now_ms + self._session_ms

    def asks_to_serve(self, now_ms: float) -> bool:
        """False: a heartbeat tells no metadata offset, and the controller keeps this broker fenced."""
        if self._until_ms is None:
            return self._is_caught_up
        is_late = self._is_answered and now_ms >= self._until_ms
        if self.calendar.awaits_verdict and not is_late:
            return False
        self._until_ms = None
        if self.calendar.awaits_verdict:
            _log.warning(
                "broker %d serves by its own calendar: other brokers are registered, and have not told theirs within"
                " %d ms. Check the time of this machine",
                self._broker_id,
                self._session_ms,
            )
        return True

    def answered(self, now_ms: float) -> None:
        """A controller has answered a heartbeat."""
        if not self._is_answered:
            self._is_answered = True
            self._begin_anew(now_ms)

    def not_answered(self) -> None:
        """No controller has answered a heartbeat in time."""
        self._is_answered = False

    def published(self, brokers: Set[int], controller_epoch: int, now_ms: float) -> bool:
        """The metadata has these brokers, by the controller of this epoch. True if the calendar must be told at
        once."""
        if controller_epoch != self._controller_epoch:
            self._controller_epoch = controller_epoch
            self._begin_anew(now_ms)
        before, self._neighbours = self._neighbours, brokers
        if not self.calendar.was_alone or brokers <= before:
            return False
        self._hurries_until_ms = now_ms + self._session_ms
        return True

    def hurries(self, now_ms: float) -> bool:
        """True while others wait until this calendar is compared with theirs."""
        return now_ms < self._hurries_until_ms and self.calendar.awaits_verdict

    def _begin_anew(self, now_ms: float) -> None:
        if self._until_ms is not None and self._anew < COMPARED_ANEW_MAX:
            self._anew += 1
            self._until_ms = now_ms + self._session_ms

    def __repr__(self) -> str:
        return f"CalendarComparison({'over' if self._until_ms is None else 'waits'}, {self._anew} times anew)"
