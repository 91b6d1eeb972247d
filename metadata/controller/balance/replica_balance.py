"""Evens the numbers of replicas over the brokers by schedule (`auto.replica.balance.enable`).

A broker that joins has no replicas, and gets none but those of new topics. Where the schedule is enabled, a round
begins each `auto.replica.balance.check.interval.seconds`, if two brokers differ by more than one replica. It looks at
every partition in turn, and begins to move a replica of it where that brings two brokers nearer to each other and
leaves the partition in as many racks. A partition that lacks a replica in sync, or its leader, is left alone.

A broker that is cordoned (KIP-1066) gets nothing, keeps what it has, and is not counted.

Moves cost bandwidth, so little is done at a time and nothing in times of trouble:

    the limit      `max_moving_partitions` partitions move at a time
    quiet time     every registered broker has been in service for one interval, under the same registration. So a
                   rolling restart, or a broker that is away for a while, moves nothing. Nor did anybody else move a
                   replica, or cancel a move: a broker that is being drained, or just was, gets nothing. What another
                   controller's schedule began counts as somebody else's

A pass is strict at first: a move must be one of the fewest that even everything, and must not make the partition's
topic less even. When no such move is left, a pass takes any that brings two brokers nearer. Racks may forbid the last
ones; `penstock cluster balance` looks for longer ways, and evens bytes. The schedule is soft state: a new controller
waits an interval, and so does a schedule that is switched on. A schedule that is switched off begins no move; those
under way end. Not here: how a replica moves (reassignments.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from metadata.controller.balance.replica_counts import spread_of
from metadata.controller.configuration.cluster_defaults import ReplicaBalanceSettings
from metadata.controller.context import DecisionContext
from metadata.controller.reassignments import begun
from metadata.controller.result import ControllerResult, TickResponse
from metadata.controller.state import ControllerState
from metadata.cordon import cordoned_brokers
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.balance.racks import keeps_racks
from penstock.errors import ApiError

COUNTED_MAX = 20
"""How many partitions of a topic are counted in the time of one look."""
RETRY_MS = 1_000
"""The pause while as many partitions move as may."""


class _Look(NamedTuple):
    partition: PartitionRegistration | None
    """The partition to look at; None while a topic's replicas are counted."""
    topic_name: str
    topic_counts: Counter[int]
    """Replicas of the topic by broker. Changes as they move."""


class _Move(NamedTuple):
    partition: PartitionRegistration
    source: int
    target: int


class _Ends(NamedTuple):
    """The brokers between which a move may be."""

    sources: frozenset[int]
    targets: tuple[int, ...]
    """Brokers that may get a replica, the one with the fewest first."""
    is_strict: bool


class HasReplicaBalanceSettings(Protocol):
    """The settings of the schedule; they may change at any time."""

    @property
    def replica_balance(self) -> ReplicaBalanceSettings: ...


class ReplicaBalance:
    """The schedule of one controller, and how far its round is."""

    def __init__(self, settings: HasReplicaBalanceSettings, now_ms: int) -> None:
        self._settings = settings
        self._ended_ms = now_ms
        """When the last round was over; when the schedule began, or was last seen switched off."""
        self._again_ms: int | None = None
        """When a round that is under way, or waits until nothing moves, goes on; None between rounds."""
        self._registrations: tuple[int, int] | None = None
        self._quiet_since_ms = now_ms
        self._known_changes = 0
        """`replica_set_changes` of the state when it was last seen, plus the moves of the last step. If the state has
        more, somebody else moves replicas."""
        self._others_move = False
        self._pass: Iterator[_Look] | None = None
        """The partitions that the pass under way has still to look at."""
        self._is_strict = True
        self._moved = 0
        """The moves begun in this pass."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None if the schedule is switched off."""
        settings = self._settings.replica_balance
        if not settings.is_enabled:
            return None
        if self._others_move:
            return self._quiet_since_ms + RETRY_MS  # it must be seen when they end
        if self._again_ms is not None:
            return self._again_ms
        return max(self._ended_ms, self._quiet_since_ms) + settings.interval_ms

    def tick(self, context: DecisionContext, now_ms: int) -> ControllerResult[TickResponse]:
        """The next moves of a round that is due; nothing before, and nothing unless all has been quiet."""
        state = context.state
        self._watch(state, now_ms)
        due_ms = self.next_deadline_ms
        if due_ms is None:
            self._end_round(now_ms)
        if due_ms is None or self._others_move or now_ms < due_ms:
            return ControllerResult((), TickResponse())
        room = context.config.max_moving_partitions - state.reassigning_count
        if self._pass is None and spread_of(_counts(state)) <= 1:
            self._end_round(now_ms)
            return ControllerResult((), TickResponse())
        if room <= 0:
            self._again_ms = now_ms + RETRY_MS
            return ControllerResult((), TickResponse())
        self._again_ms = now_ms
        changes, moves = self._step(context, self._pass or self._begin_pass(state, is_strict=True), room, now_ms)
        return ControllerResult(tuple(changes), TickResponse(replica_moves=moves))

    def _watch(self, state: ControllerState, now_ms: int) -> None:
        """Notes since when all is quiet; ends a round when it is not. Without a round, all moves are others'."""
        brokers = state.brokers.values()
        registrations = len(brokers), max((broker.broker_epoch for broker in brokers), default=0)
        known, self._registrations = self._registrations or registrations, registrations
        is_changed = self._known_changes != state.replica_set_changes
        self._known_changes = state.replica_set_changes
        if is_changed:
            self._pass = None
        self._others_move = self._pass is None and state.reassigning_count > 0
        is_whole = registrations == known and all(broker.is_active for broker in brokers)
        if is_changed or self._others_move or not is_whole:
            self._quiet_since_ms = now_ms
            self._pass = self._again_ms = None

    def _end_round(self, now_ms: int) -> None:
        self._pass = self._again_ms = None
        self._ended_ms = now_ms

    def _begin_pass(self, state: ControllerState, is_strict: bool) -> Iterator[_Look]:
        self._pass, self._is_strict, self._moved = _looks(state), is_strict, 0
        return self._pass

    def _end_pass(self, state: ControllerState, now_ms: int) -> None:
        """Ends a pass, and perhaps the round. A pass that moved something is followed by a strict one. A strict pass
        that moved nothing is followed by one that is not strict. Any other pass ends the round, and so do even
        brokers."""
        is_even = spread_of(_counts(state)) <= 1
        if not self._moved and (is_even or not self._is_strict):
            self._end_round(now_ms)
        else:
            self._begin_pass(state, is_strict=self._moved > 0)

    def _step(
        self, context: DecisionContext, looks: Iterator[_Look], room: int, now_ms: int
    ) -> tuple[list[PartitionChangeRecord], int]:
        """Records, and how many partitions begin to move by them."""
        state = context.state
        counts = _counts(state)
        ends = _ends(counts, self._is_strict)
        changes: list[PartitionChangeRecord] = []
        moves = 0
        for _ in range(context.config.max_replica_looks_per_step):
            look = next(looks, None)
            if look is None or not ends.sources:
                self._end_pass(state, now_ms)
                break
            move = _find_move(state, look, counts, ends)
            records = None if move is None else _records(context, look.topic_name, move)
            if move is None or records is None:
                continue
            changes += records
            moves += 1
            self._moved += 1
            for of_brokers in (counts, look.topic_counts):
                of_brokers[move.source] -= 1
                of_brokers[move.target] += 1
            ends = _ends(counts, self._is_strict)
            if moves == room:
                break
        self._known_changes += moves
        return changes, moves

    def __repr__(self) -> str:
        state = "a round is under way" if self._pass is not None else "no round is under way"
        return f"ReplicaBalance(due_ms={self.next_deadline_ms}, {state})"


def _counts(state: ControllerState) -> Counter[int]:
    """Replicas by broker. A cordoned broker gets none, and keeps what it has."""
    cordoned = cordoned_brokers(state.brokers.values(), state.configs)
    return state.replica_counts.of([broker_id for broker_id in state.brokers if broker_id not in cordoned])


def _looks(state: ControllerState) -> Iterator[_Look]:
    """Every partition, each as it is when its turn comes, after a count of its topic."""
    for topic_id in list(state.topics):
        topic = state.topics.get(topic_id)
        if topic is None:
            continue
        numbers = list(topic.partitions)
        topic_counts: Counter[int] = Counter()
        for at in range(0, len(numbers), COUNTED_MAX):
            found = (topic.partitions.get(number) for number in numbers[at : at + COUNTED_MAX])
            topic_counts.update(replica for p in found if p is not None for replica in p.target_replicas)
            yield _Look(None, topic.name, topic_counts)
        for number in numbers:
            partition = topic.partitions.get(number) if topic_id in state.topics else None
            if partition is not None:
                yield _Look(partition, topic.name, topic_counts)


def _find_move(state: ControllerState, look: _Look, counts: Counter[int], ends: _Ends) -> _Move | None:
    """A move of one replica that makes the brokers more even; None if no such move exists."""
    partition, topic = look.partition, look.topic_counts
    if partition is None or partition.is_reassigning or not partition.has_leader:
        return None
    if len(partition.isr) < len(partition.replicas):
        return None
    sources = [replica for replica in partition.replicas if replica in ends.sources]
    for source in sorted(sources, key=lambda broker_id: (-counts[broker_id], -topic[broker_id])):
        for target in ends.targets:
            if counts[source] - counts[target] < 2:
                break
            is_even = not ends.is_strict or topic[source] > topic[target]
            if is_even and target not in partition.replicas and _keeps_racks(state, partition, source, target):
                return _Move(partition, source, target)
    return None


def _ends(counts: Counter[int], is_strict: bool) -> _Ends:
    """The brokers of a move that is one of the fewest: from a broker above the larger of the two even numbers to one
    below the smaller. Without brokers of one kind, the brokers at that number stand in."""
    order = sorted(counts, key=lambda broker_id: (counts[broker_id], broker_id))
    if not is_strict:
        return _Ends(frozenset(order), tuple(order), is_strict)
    least, rest = divmod(counts.total(), len(counts))
    most = least + (rest > 0)
    over = [broker_id for broker_id in order if counts[broker_id] > most]
    under = [broker_id for broker_id in order if counts[broker_id] < least]
    if not over and not under:
        return _Ends(frozenset(), (), is_strict)
    sources = over or [broker_id for broker_id in order if counts[broker_id] == most]
    targets = under or [broker_id for broker_id in order if counts[broker_id] == least]
    return _Ends(frozenset(sources), tuple(targets), is_strict)


def _keeps_racks(state: ControllerState, partition: PartitionRegistration, source: int, target: int) -> bool:
    return keeps_racks(partition.replicas, source, target, state.rack_of)


def _records(context: DecisionContext, topic_name: str, move: _Move) -> list[PartitionChangeRecord] | None:
    """The records that begin a move; None where a rule of reassignments forbids it."""
    partition = move.partition
    target = tuple(move.target if replica == move.source else replica for replica in partition.replicas)
    try:
        return begun(context, f"{topic_name}-{partition.partition}", partition, target)
    except ApiError:
        return None
