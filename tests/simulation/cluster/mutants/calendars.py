"""Mistakes by which a wrong calendar makes a cluster forget what it has promised to keep (I91)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordination.watched_time import WatchedTime
from broker.groups.offsets.sweep import OffsetSweep
from broker.jobs.wall_clock import WallClockGuard
from broker.transactions.atomic_batches.decisions import AtomicBatchDecisions
from broker.transactions.expiry import TransactionalIdExpiry
from broker.transactions.transaction_metadata import TransactionMetadata
from metadata.controller.calendars import verdict_of
from tests.simulation.cluster.calendars.calendar_plan import CalendarPlan, CalendarSetting, calendar_config
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import TOGETHER, directed, with_parts
from tests.simulation.cluster.plan import Fault, Kind, Plan

DAY_MS = 86_400_000
FAR_MS = 30 * DAY_MS
_LAST = "self._watched._stretches[-1]"
_BY_CALENDAR = f"{_LAST}.calendar_ms + self._watched._ms - {_LAST}.watched_ms - "
"""The age of a stamp by the calendar of now."""


def calendars(
    *settings: CalendarSetting,
    faults: Sequence[Fault] = (),
    nodes: int = 1,
    seconds: float = 14.0,
    tellings: int = 2,
    stamps: bool = False,
) -> tuple[Plan, ...]:
    """A cluster whose calendars are set so."""
    story = directed(*faults, tellings=tellings, copies=nodes, roles=TOGETHER[:nodes], seconds=seconds)
    return with_parts(story, calendar_config(nodes), calendars=CalendarPlan(settings, nodes >= 3, stamps))


AHEAD_FOR_A_WHILE = CalendarSetting(5.0, 0, FAR_MS), CalendarSetting(9.0, 0, 0)
BEHIND_AT_FIRST = CalendarSetting(-1.0, 0, -FAR_MS), CalendarSetting(9.0, 0, 0)
WRONG_FOR_A_WHILE = calendars(*AHEAD_FOR_A_WHILE) + calendars(*BEHIND_AT_FIRST)
WRONG_FROM_THE_START = tuple(
    plan for node in range(3) for plan in calendars(CalendarSetting(-1.0, node, FAR_MS), nodes=3, tellings=1)
)
BEHIND_FROM_THE_START = tuple(
    plan
    for node in range(3)
    for plan in calendars(CalendarSetting(-1.0, node, -FAR_MS), nodes=3, tellings=1, stamps=True)
)
RESTARTS = tuple(Fault(at_s, Kind.KILL, 0, 0, 0.2, 0.5) for at_s in (6.0, 10.0))

CALENDARS = (
    Mutant(
        "an offset expires by the calendar",
        "2026: a calendar that jumped for seven seconds deleted the offsets of an idle group",
        (
            Edit(
                OffsetSweep._is_expired,
                "self._watched.age_ms(committed.commit_ms)",
                f"{_BY_CALENDAR}committed.commit_ms",
            ),
        ),
        is_replicated=None,
        stories=WRONG_FOR_A_WHILE,
    ),
    Mutant(
        "a transactional id expires by the calendar",
        "2026: the same jump ended a live transactional producer",
        (
            Edit(
                TransactionalIdExpiry._is_expired,
                "self._watched.age_ms(transaction.update_ms)",
                f"{_BY_CALENDAR}transaction.update_ms",
            ),
        ),
        is_replicated=None,
        stories=WRONG_FOR_A_WHILE,
    ),
    Mutant(
        "the name of an atomic batch expires by the calendar",
        "2026: after the same jump a version was committed a second time",
        (
            Edit(
                AtomicBatchDecisions._is_expired,
                "self._watched.age_ms(application.update_ms)",
                f"{_BY_CALENDAR}application.update_ms",
            ),
        ),
        is_replicated=None,
        stories=WRONG_FOR_A_WHILE,
    ),
    Mutant(
        "the time between two leads is taken from their calendars",
        "a node with a calendar ahead becomes the coordinator, and forgets everything at the load",
        (
            Edit(
                WatchedTime.look,
                "self._origin_ms, self._lead_ms =",
                "self._ms += max([0] + [wall_ms - one.calendar_ms - self._ms + one.watched_ms"
                " for one in self._stretches[-1:]]); self._origin_ms, self._lead_ms =",
            ),
        ),
        is_replicated=None,
        stories=calendars(CalendarSetting(6.1, 0, FAR_MS), faults=RESTARTS),
    ),
    Mutant(
        "a calendar that jumps begins no stretch",
        "stamps of a calendar that was set back are taken for older than all",
        (Edit(WatchedTime.look, "> APART_MS", "> 1 << 62"),),
        is_replicated=None,
        stories=calendars(CalendarSetting(11.0, 0, -FAR_MS), seconds=24.0),
    ),
    Mutant(
        "an id goes on with the stamps of a calendar that was far ahead",
        "an id that is in use looks as old as the first use under that calendar",
        (Edit(TransactionMetadata.moved, "if is_a_little else wall_ms", ""),),
        is_replicated=None,
        stories=calendars(CalendarSetting(-1.0, 0, FAR_MS), CalendarSetting(3.0, 0, 0), seconds=26.0),
    ),
    Mutant(
        "a broker deletes by age whatever the controller finds of its calendar",
        "a clock that is wrong from the start never jumps",
        (Edit(WallClockGuard.believed_wall_ms, "None if self._waits or self._is_apart else wall_ms", "wall_ms"),),
        stories=WRONG_FROM_THE_START,
    ),
    Mutant(
        "a leader stamps by its own calendar alone",
        "2026: records that a node of 1970 had stamped were deleted by the next leader, and producers' were refused",
        (Edit(WallClockGuard.stamp_ms, "if wall_ms >= of_most_ms - JUMP_MS_MAX else of_most_ms", ""),),
        stories=BEHIND_FROM_THE_START,
    ),
    Mutant(
        "one calendar is as many as most",
        "the median is not compared",
        (Edit(verdict_of, "near > 1 and 2 * near > counted", "near"),),
        stories=WRONG_FROM_THE_START,
    ),
    Mutant(
        "nothing that coordinators keep grows old",
        "what should expire does so",
        (Edit(WatchedTime.age_ms, "max(self._ms - self._watched_at(stamp_ms), 0)", "0"),),
        is_replicated=None,
        stories=calendars(*AHEAD_FOR_A_WHILE, tellings=1),
    ),
)
