"""Gives leaderships back to the preferred leaders by schedule (`auto.leader.rebalance.enable`).

A broker that comes back joins its ISRs again and leads nothing. Each `leader.imbalance.check.interval.seconds` a round
begins: a broker that lacks more than `leader.imbalance.per.broker.percentage` of the leaderships that it should have
gets them back. A replica may be elected as in an election that an operator orders (`preferred_obstacle`): it is in
sync, its broker is in service and does not shut down, and its log dir works.

A round is done in bounded steps, one a tick and without pauses; the next one is due an interval after its end. The
schedule is soft state: a new controller waits an interval, and so does a schedule that is switched on. A step whose
records are not committed is not repeated: the next round finds what is still led elsewhere. Not here: what counts as
imbalance (preferred_leaders.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from metadata.controller.configuration.cluster_defaults import BalanceSettings
from metadata.controller.context import DecisionContext
from metadata.controller.elections.preferred_election import preferred_elected, preferred_obstacle
from metadata.controller.result import ControllerResult, TickResponse
from metadata.controller.state import ControllerState
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionKey


class HasBalanceSettings(Protocol):
    """The settings of the schedule; they may change at any time."""

    @property
    def balance(self) -> BalanceSettings: ...


class LeaderBalance:
    """The schedule of one controller, and how far its round is."""

    def __init__(self, settings: HasBalanceSettings, now_ms: int) -> None:
        self._settings = settings
        self._ended_ms = now_ms
        """When the last round was over; when the schedule began, or was last seen switched off."""
        self._round: Iterator[PartitionKey] | None = None
        """The partitions that the round under way has still to look at."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None if the schedule is switched off."""
        settings = self._settings.balance
        if not settings.is_enabled:
            return None
        return self._ended_ms if self._round is not None else self._ended_ms + settings.interval_ms

    def tick(self, context: DecisionContext, now_ms: int) -> ControllerResult[TickResponse]:
        """The next elections of a round that is due; nothing before."""
        due_ms = self.next_deadline_ms
        if due_ms is None:
            self._round, self._ended_ms = None, now_ms
        if due_ms is None or now_ms < due_ms:
            return ControllerResult((), TickResponse())
        if self._round is None:
            self._round = _round(context.state, self._settings.balance.percentage)
        changes: list[PartitionChangeRecord] = []
        for _ in range(context.config.max_leader_looks_per_step):
            key = next(self._round, None)
            if key is None:
                self._round, self._ended_ms = None, now_ms
                break
            change = _given_back(context, key)
            if change is not None:
                changes.append(change)
            if len(changes) == context.config.max_elections_per_step:
                break
        return ControllerResult(tuple(changes), TickResponse(preferred_elections=len(changes)))

    def __repr__(self) -> str:
        state = "a round is under way" if self._round is not None else "no round is under way"
        return f"LeaderBalance(due_ms={self.next_deadline_ms}, {state})"


def _round(state: ControllerState, percentage: int) -> Iterator[PartitionKey]:
    """The partitions that are looked at: of each broker as they are when its turn comes."""
    for broker_id in state.preferred_leaders.brokers_above(percentage):
        if state.is_active(broker_id):
            yield from state.preferred_leaders.led_elsewhere(broker_id)


def _given_back(context: DecisionContext, key: PartitionKey) -> PartitionChangeRecord | None:
    """The election; None where there is nothing to elect, or the preferred leader may not lead now."""
    partition = context.state.find_partition(key)
    if partition is None or partition.leader_id == partition.replicas[0] or preferred_obstacle(context, partition):
        return None
    return preferred_elected(context, partition)
