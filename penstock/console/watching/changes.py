"""Finds what has happened between two looks at a cluster: elections, ISR changes, brokers that came and went, moves.

Remembers of each partition its leader, its leader epoch, its replicas, its ISR and its move, in small arrays. The first
look at a thing is no event. Several changes between two looks are one event: a leader that went and came back is seen
by its epoch, and so is a broker; a move that began and ended is seen by the replicas, and one of a topic that is new is
told beside the topic. Pure. Not here: how often the cluster is looked at, and how many events are kept
(timeline.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from penstock.admin import BrokerInfo, ClusterInfo, PartitionInfo, TopicDescription
from penstock.console.watching.timeline import EventKind, TimelineEvent, named_partitions
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER

PARTITIONS_MAX = 50_000
"""Partitions that are remembered; of topics beyond it, by name, there is no event."""
SETS_MAX = 5_000


@dataclass(slots=True)
class _Remembered:
    """One topic at the last look."""

    topic_id: str
    leaders: array[int] = field(default_factory=lambda: array("i"))
    epochs: array[int] = field(default_factory=lambda: array("i"))
    replicas: list[tuple[int, ...]] = field(default_factory=list)
    isrs: list[tuple[int, ...]] = field(default_factory=list)
    moves: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The partitions that are being reassigned, with the replicas that come."""


class ClusterChanges:
    """The last look at brokers and topics."""

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        self._partitions_max = partitions_max
        self._brokers: dict[int, BrokerInfo] | None = None
        self._controller_id: int | None = None
        self._topics: dict[str, _Remembered] | None = None
        self._sets: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Each ISR and each set of replicas once: a cluster has few different ones."""
        self._is_cut = False
        """The last look had more partitions than are remembered: a topic that is new to it may be old."""
        self._silent: frozenset[int] = frozenset()
        self._group_states: dict[str, str] = {}

    # -- brokers -------------------------------------------------------------------------------------------------------

    def of_cluster(self, cluster: ClusterInfo) -> Iterator[TimelineEvent]:
        """Brokers and the controller since the last look."""
        before, now = self._brokers, {broker.node_id: broker for broker in cluster.brokers}
        self._brokers = now
        if before is not None:
            # A broker that comes back leads nothing at first, so nobody would ask it and hear that it answers.
            back = {one for one in now if one not in before or (before[one].fenced and not now[one].fenced)}
            self._silent = (self._silent & now.keys()) - back
            for broker_id in sorted(before.keys() | now.keys()):
                yield from _broker_events(broker_id, before.get(broker_id), now.get(broker_id))
        controller_id, was = cluster.controller_id, self._controller_id
        self._controller_id = controller_id
        if was is not None and was != controller_id:
            text = f"the controller is broker {controller_id} now" if controller_id >= 0 else "no controller answers"
            words = f"{text}; before, it was {was}" if was >= 0 else text
            brokers = tuple(sorted(one for one in (was, controller_id) if one >= 0))
            yield TimelineEvent(EventKind.CONTROLLER, words, brokers=brokers)

    def of_probes(self, probes: Mapping[int, float | None]) -> Iterator[TimelineEvent]:
        """Brokers that stopped to answer the console, or answer again."""
        silent = frozenset(broker for broker, ms in probes.items() if ms is None)
        kept = self._silent - probes.keys()
        for broker in sorted(silent - self._silent):
            text = f"broker {broker} does not answer the console"
            yield TimelineEvent(EventKind.BROKER_SILENT, text, brokers=(broker,))
        for broker in sorted(self._silent & probes.keys() - silent):
            yield TimelineEvent(EventKind.BROKER_ANSWERS, f"broker {broker} answers again", brokers=(broker,))
        self._silent = silent | kept

    @property
    def silent(self) -> frozenset[int]:
        """The brokers that did not answer the last probe."""
        return self._silent

    # -- topics --------------------------------------------------------------------------------------------------------

    def of_topics(self, topics: Sequence[TopicDescription]) -> Iterator[TimelineEvent]:
        """Topics and their partitions since the last look."""
        before, now = self._topics, dict[str, _Remembered]()
        budget, was_cut = self._partitions_max, self._is_cut
        self._is_cut = False
        for topic in topics:
            budget -= len(topic.partitions)
            if budget < 0:
                self._is_cut = True
                break
            known = None if before is None else before.get(topic.name)
            now[topic.name] = self._remember(topic)
            if known is None or known.topic_id != topic.topic_id:
                if before is not None and not was_cut:
                    yield _topic_event(EventKind.TOPIC_CREATED, topic.name, "was created")
                    yield from _moves(topic.name, topic.partitions, _Remembered(topic.topic_id))
                continue
            yield from _topic_events(topic, known)
        self._topics = now
        if len(self._sets) > SETS_MAX:
            self._sets.clear()
        for name in sorted((before or {}).keys() - {topic.name for topic in topics}):
            yield _topic_event(EventKind.TOPIC_DELETED, name, "was deleted, or may not be seen any more")

    def _remember(self, topic: TopicDescription) -> _Remembered:
        return _Remembered(
            topic_id=topic.topic_id,
            leaders=array("i", [p.leader_id for p in topic.partitions]),
            epochs=array("i", [p.leader_epoch for p in topic.partitions]),
            replicas=[self._sets.setdefault(p.replicas, p.replicas) for p in topic.partitions],
            isrs=[self._sets.setdefault(p.isr, p.isr) for p in topic.partitions],
            moves={p.partition: p.adding_replicas for p in topic.partitions if p.is_reassigning},
        )

    # -- groups --------------------------------------------------------------------------------------------------------

    def of_groups(self, states: Mapping[str, str]) -> Iterator[TimelineEvent]:
        """States of groups since each was looked at last."""
        for group_id, state in states.items():
            was = self._group_states.get(group_id)
            self._group_states[group_id] = state
            if was is not None and was != state:
                text = f"group {group_id} is {state}; before, it was {was}"
                yield TimelineEvent(EventKind.GROUP_STATE, text, groups=(group_id,))

    def keep_groups(self, listed: frozenset[str]) -> None:
        """Forgets the groups that are gone."""
        self._group_states = {group: state for group, state in self._group_states.items() if group in listed}

    def __repr__(self) -> str:
        return f"ClusterChanges({len(self._brokers or ())} brokers, {len(self._topics or ())} topics)"


def _broker_events(broker_id: int, was: BrokerInfo | None, now: BrokerInfo | None) -> Iterator[TimelineEvent]:
    def event(kind: EventKind, text: str) -> TimelineEvent:
        return TimelineEvent(kind, f"broker {broker_id} {text}", brokers=(broker_id,))

    if was is None:
        yield event(EventKind.BROKER_REGISTERED, "was registered")
    elif now is None:
        yield event(EventKind.BROKER_FORGOTTEN, "is not registered any more")
    else:
        if now.fenced and not was.fenced:
            yield event(EventKind.BROKER_GONE, "went out of service")
        if was.fenced and not now.fenced:
            yield event(EventKind.BROKER_BACK, "is in service again")
        if was.broker_epoch and now.broker_epoch > was.broker_epoch and not (was.fenced or now.fenced):
            yield event(EventKind.BROKER_RESTARTED, "was restarted, and was back before the next look")
        if now.cordoned != was.cordoned:
            words = "gets no new replicas: it is cordoned" if now.cordoned else "gets new replicas again"
            yield event(EventKind.BROKER_CORDONED, words)


def _topic_event(
    kind: EventKind, topic: str, text: str, *, brokers: Sequence[int] = (), count: int = 1
) -> TimelineEvent:
    return TimelineEvent(kind, f"{topic} {text}", (topic,), tuple(sorted(set(brokers))), count=count)


def _topic_events(topic: TopicDescription, was: _Remembered) -> Iterator[TimelineEvent]:
    """The events in the partitions of a topic that was there before."""
    known = topic.partitions[: len(was.leaders)]
    if (more := len(topic.partitions) - len(known)) > 0:
        words = f"has {more} more partition{'s' * (more > 1)}: {len(topic.partitions)}"
        yield _topic_event(EventKind.TOPIC_GREW, topic.name, words, count=more)
    yield from _elections(topic.name, known, was)
    yield from _isr_changes(topic.name, known, was)
    yield from _moves(topic.name, topic.partitions, was)


def _elections(topic: str, known: Sequence[PartitionInfo], was: _Remembered) -> Iterator[TimelineEvent]:
    by_change: dict[tuple[int, int], list[int]] = {}
    for p, leader_before, epoch_before in zip(known, was.leaders, was.epochs, strict=False):
        if p.leader_id != leader_before or (p.leader_epoch > epoch_before and p.leader_id != NO_LEADER):
            by_change.setdefault((leader_before, p.leader_id), []).append(p.partition)
    for (before, after), partitions in sorted(by_change.items()):
        named, count = named_partitions(partitions), len(partitions)
        brokers = [one for one in (before, after) if one != NO_LEADER]
        if after == NO_LEADER:
            words = f"has no leader of {named}; it was broker {before}"
            yield _topic_event(EventKind.OFFLINE, topic, words, brokers=brokers, count=count)
            continue
        if before == NO_LEADER:
            words = f"has a leader of {named} again: broker {after}"
        elif before == after:
            words = f"elected broker {after} once more, for {named}"
        else:
            words = f"elected broker {after} in place of {before}, for {named}"
        yield _topic_event(EventKind.ELECTION, topic, words, brokers=brokers, count=count)


def _isr_changes(topic: str, known: Sequence[PartitionInfo], was: _Remembered) -> Iterator[TimelineEvent]:
    left: dict[tuple[int, ...], list[int]] = {}
    came: dict[tuple[int, ...], list[int]] = {}
    for p, before in zip(known, was.isrs, strict=False):
        now = set(p.isr)
        if gone := tuple(sorted(set(before) - now)):
            left.setdefault(gone, []).append(p.partition)
        if new := tuple(sorted(now - set(before))):
            came.setdefault(new, []).append(p.partition)
    for brokers, partitions in sorted(left.items()):
        words = f"lost {_brokers(brokers)} from the ISR of {named_partitions(partitions)}"
        yield _topic_event(EventKind.ISR_SHRINK, topic, words, brokers=brokers, count=len(partitions))
    for brokers, partitions in sorted(came.items()):
        words = f"has {_brokers(brokers)} in the ISR of {named_partitions(partitions)} again"
        yield _topic_event(EventKind.ISR_EXPAND, topic, words, brokers=brokers, count=len(partitions))


def _moves(topic: str, partitions: Sequence[PartitionInfo], was: _Remembered) -> Iterator[TimelineEvent]:
    moving = {p.partition: p.adding_replicas for p in partitions if p.is_reassigning}
    if began := sorted(one for one, coming in moving.items() if was.moves.get(one) != coming):
        brokers = sorted({broker for partition in began for broker in moving[partition]})
        to = f" to {_brokers(brokers)}" if brokers else ""
        words = f"begins to move {named_partitions(began)}{to}"
        yield _topic_event(EventKind.MOVE_BEGAN, topic, words, brokers=brokers, count=len(began))
    if ended := sorted(was.moves.keys() - moving.keys()):
        replicas = {p.partition: set(p.replicas) for p in partitions}
        done = [one for one in ended if replicas.get(one, set()) >= set(was.moves[one])]
        cancelled = [one for one in ended if one not in done]
        for numbers, what in ((done, "has moved"), (cancelled, "has given up the move of")):
            if numbers:
                brokers = sorted({broker for partition in numbers for broker in was.moves[partition]})
                words = f"{what} {named_partitions(numbers)}"
                yield _topic_event(EventKind.MOVE_ENDED, topic, words, brokers=brokers, count=len(numbers))
    yield from _unseen_moves(topic, partitions, was)


def _unseen_moves(topic: str, partitions: Sequence[PartitionInfo], was: _Remembered) -> Iterator[TimelineEvent]:
    """The moves that began and ended between the two looks."""
    by_change: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for p, before in zip(partitions, was.replicas, strict=False):
        if not p.is_reassigning and p.partition not in was.moves and set(p.replicas) != set(before):
            change = tuple(sorted(set(before) - set(p.replicas))), tuple(sorted(set(p.replicas) - set(before)))
            by_change.setdefault(change, []).append(p.partition)
    for (left, came), numbers in sorted(by_change.items()):
        way = [f"{word} {_brokers(brokers)}" for word, brokers in (("from", left), ("to", came)) if brokers]
        words = f"has moved {named_partitions(numbers)} {' '.join(way)}, between two looks"
        yield _topic_event(EventKind.MOVE_ENDED, topic, words, brokers=(*left, *came), count=len(numbers))


def _brokers(brokers: Sequence[int]) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(map(str, brokers))}"
