"""The difference between what a member owns and what its coordinator wants it to own (KIP-848).

Pure. The coordinator names topics by their ids, because a topic that was deleted and made anew under its name is
another one; a consumer reads by names. A partition is taken once its topic's name is known, and its *place*: what the
group has committed for it, or that there is nothing. Not here: the look-ups (preparation.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.consumer.groups.steps import CommittedPlace, RebalanceStep, StepKind
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.types import TopicPartition


class Reconciliation:
    """`owned` has each partition with the id of its topic."""

    def __init__(self) -> None:
        self.owned: dict[TopicPartition, str] = {}
        self.places: dict[TopicPartition, CommittedPlace | None] = {}
        """The places of partitions to be taken. None: the group has committed nothing there."""
        self._target: dict[tuple[str, int], None] = {}
        self._names: dict[str, str] = {}

    def begin(self) -> None:
        """The member joins: nothing is its own, or wanted of it."""
        self.owned = {}
        self.places = {}
        self._target = {}

    def set_target(self, assignment: Iterable[TopicIdPartitions]) -> bool:
        """The coordinator's newest word, all of it. True if it takes back some of its word before."""
        assignment, before = tuple(assignment), self._target
        self._target = {(topic.topic_id, number): None for topic in assignment for number in topic.partitions}
        wanted_ids = {topic.topic_id for topic in assignment} | set(self.owned.values())
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in wanted_ids}
        self.learn_names({topic.topic_id: topic.topic for topic in assignment if topic.topic})
        missing = self._missing()
        self.places = {tp: place for tp, place in self.places.items() if tp in missing}
        return not before.keys() <= self._target.keys()

    # -- what is to be looked up ---------------------------------------------------------------------------------------

    @property
    def unknown_ids(self) -> set[str]:
        """The topics whose names are needed."""
        return {topic_id for topic_id, _ in self._target if topic_id not in self._names}

    def learn_names(self, names: Mapping[str, str]) -> None:
        """Learns the names of topics by their ids."""
        self._names.update(names)

    @property
    def unplaced(self) -> dict[TopicPartition, str]:
        """The partitions whose places are needed, each with the id of its topic."""
        return {tp: topic_id for tp, topic_id in self._missing().items() if tp not in self.places}

    def learn_places(self, places: Mapping[TopicPartition, CommittedPlace | None]) -> None:
        """Keeps those of partitions that are still to be taken; others would be old when they count."""
        missing = self._missing()
        self.places.update((tp, place) for tp, place in places.items() if tp in missing)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _leaving(self) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp, topic_id in self.owned.items() if (topic_id, tp.partition) not in self._target)

    def _missing(self) -> dict[TopicPartition, str]:
        """The partitions to be taken. A partition of an older topic of the same name is given up first."""
        found = {}
        for topic_id, number in self._target:
            name = self._names.get(topic_id)
            if name is not None:
                tp = TopicPartition(name, number)
                if tp not in self.owned:
                    found[tp] = topic_id
        return found

    @property
    def is_done(self) -> bool:
        """The member owns the target, and nothing else."""
        return len(self._target) == len(self.owned) and not self._leaving()

    def step(self, *, may_take: bool = True) -> RebalanceStep | None:
        """Partitions are given up BEFORE others are taken; those are taken as soon as they have places."""
        if leaving := self._leaving():
            return RebalanceStep(StepKind.REVOKE, leaving)
        placed = tuple(tp for tp in self._missing() if tp in self.places) if may_take else ()
        return RebalanceStep(StepKind.ASSIGN, placed) if placed else None

    def on_done(self, step: RebalanceStep) -> None:
        """The change is made."""
        if step.kind is not StepKind.ASSIGN:
            for tp in step.partitions:
                self.owned.pop(tp, None)
            return
        missing = self._missing()
        for tp in step.partitions:
            if tp in missing:
                self.owned[tp] = missing[tp]
                self.places.pop(tp, None)

    def owned_by_id(self) -> dict[str, tuple[int, ...]]:
        """The owned partitions by topic id, as a heartbeat reports them."""
        found: dict[str, list[int]] = {}
        for tp, topic_id in sorted(self.owned.items()):
            found.setdefault(topic_id, []).append(tp.partition)
        return {topic_id: tuple(numbers) for topic_id, numbers in sorted(found.items())}

    def __repr__(self) -> str:
        return f"Reconciliation({len(self.owned)} owned, {len(self._target)} wanted)"
