"""Offsets of transactions beside a model that keeps the whole history: commits, markers, deletions, topics deleted and
made anew, expiry, and another leader, which has the log alone, compacted or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from broker.coordination.watched_time import MARK_MS
from penstock.errors import InvalidProducerEpochError
from penstock.record.markers import Marker, build_marker
from tests.support.amount import usually
from tests.support.group_log import batch_of, in_a_log, loaded_offsets
from tests.support.offsets_shard import DAY_MS, T0_MS, OffsetsShard, SomeTopics, place

STEPS = 300
CHECK_MS = 600_000
PLACES = ("a:0", "a:1", "b:0")


@dataclass
class Entry:
    """One record of a place. `producer` is that of a transaction which is open."""

    offset: int
    at_ms: int
    producer: int | None
    leads: int
    """How often another broker had led by then: each lead loses some of the time that it has watched."""
    counts: bool = True


@dataclass
class Model:
    """The records of each place since its last tombstone, in the order of the log: the last that counts is told."""

    history: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    leads: int = 0

    def write(self, group: str, where: str, offset: int, at_ms: int, producer: int | None = None) -> None:
        self.history.setdefault((group, where), []).append(Entry(offset, at_ms, producer, self.leads))

    def end(self, producer: int, is_committed: bool) -> None:
        for entries in self.history.values():
            for entry in entries:
                if entry.producer == producer:
                    entry.producer, entry.counts = None, is_committed

    def forget(self, group: str, where: str) -> None:
        self.history.pop((group, where), None)

    def offset_at(self, group: str, where: str) -> Entry | None:
        counting = [one for one in self.history.get((group, where), ()) if one.counts and one.producer is None]
        return counting[-1] if counting else None

    def is_open(self, group: str, where: str) -> bool:
        return any(one.producer is not None for one in self.history.get((group, where), ()))

    def is_known(self, group: str) -> bool:
        return any(one == group and (self.offset_at(*at) or self.is_open(*at)) for at in self.history for one in at[:1])

    def expire(self, shard: OffsetsShard, looked: bool) -> None:
        """Forget what the shard was allowed to remove, and did; it must have if it has `looked` since."""
        for group, where in list(self.history):
            entry = self.offset_at(group, where)
            if entry is None or self.is_open(group, where):
                continue
            is_there = shard.offsets.state.get(group, *place(where)) is not None
            age_ms = shard.wall_ms - entry.at_ms
            assert is_there or age_ms >= 7 * DAY_MS, (group, where)
            late_ms = 2 * CHECK_MS + MARK_MS * (self.leads - entry.leads)
            assert not (is_there and looked) or age_ms < 7 * DAY_MS + late_ms, (group, where)
            if not is_there:
                self.forget(group, where)


class Run:
    def __init__(self, seed: int) -> None:
        self.random, self.model = Random(seed), Model()
        self.shard = OffsetsShard(SomeTopics(a=2, b=2))
        self.shard.reload()

    def step(self, number: int) -> None:
        random, model, shard = self.random, self.model, self.shard
        group, where, producer = random.choice("gh"), random.choice(PLACES), random.randrange(4)
        choice = random.random()
        if choice < 0.25:
            if shard.commit(group, {where: number}) == [None]:
                model.write(group, where, number, shard.wall_ms)
        elif choice < 0.55:
            self.pend(group, where, producer, number)
        elif choice < 0.75:
            self.end(producer)
        elif choice < 0.8:
            if model.is_known(group) and where[0] in shard.topics.facts:
                shard.delete(group, where)
                model.forget(group, where)
        elif choice < 0.82:
            shard.offsets.delete_all(shard.turn(), group)
            for one in PLACES:
                model.forget(group, one)
        elif choice < 0.87:
            self.change_topic(where[0])
        elif choice < 0.92:
            shard.pass_time(random.choice((0, DAY_MS, 4 * DAY_MS)) + CHECK_MS + 10)
        else:
            shard.reload(compacted=random.random() < 0.6)
            model.leads += 1
            shard.pass_time(10)
        model.expire(shard, looked=0.87 <= choice < 0.92)

    def pend(self, group: str, where: str, producer: int, number: int) -> None:
        epoch = self.model.epochs.get(producer, 0)
        if epoch and self.random.random() < 0.1:
            with pytest.raises(InvalidProducerEpochError):
                self.shard.pend(group, producer, {where: number}, epoch - 1)
        elif self.shard.pend(group, producer, {where: number}, epoch) == [None]:
            self.model.write(group, where, number, self.shard.wall_ms, producer)

    def end(self, producer: int) -> None:
        is_committed = self.random.random() < 0.6
        self.model.epochs[producer] = self.model.epochs.get(producer, 0) + 1
        self.shard.end(producer, is_committed, self.model.epochs[producer])
        self.model.end(producer, is_committed)

    def change_topic(self, topic: str) -> None:
        if self.random.random() < 0.5 and topic in self.shard.topics.facts:
            del self.shard.topics.facts[topic]
        else:
            self.shard.topics.make(topic, 2)
        self.shard.topics_changed(topic)
        for group in "gh":
            for one in PLACES:
                if one[0] == topic:
                    self.model.forget(group, one)

    def check(self) -> None:
        for group in "gh":
            found = {
                where: entry.offset for where in PLACES if (entry := self.model.offset_at(group, where)) is not None
            }
            unstable = {where for where in PLACES if self.model.is_open(group, where)}
            assert self.shard.fetched(group) == found
            assert self.shard.unstable(group, *PLACES) == unstable
            assert self.shard.unstable(group) == unstable & found.keys()
            assert (group in self.shard.offsets.state) is bool(found or unstable)

    def check_log(self) -> None:
        """The log, as batches and in parts as they come, tells the same."""
        appends = [build_marker(one, T0_MS) if isinstance(one, Marker) else batch_of(*one) for one in self.shard.log]
        batches, cuts = in_a_log(appends), sorted(self.random.choices(range(len(appends) + 1), k=3))
        pairs = pairwise((0, *cuts, len(batches)))
        state, wanted = (
            loaded_offsets(*(b"".join(batches[one:other]) for one, other in pairs)),
            self.shard.offsets.state,
        )
        for group in "gh":
            assert dict(state.of_group(group)) == dict(wanted.of_group(group))
            assert set(state.pending.places_of(group)) == set(wanted.pending.places_of(group))
            for where in state.pending.places_of(group):
                assert list(state.pending.values_at(group, where)) == list(wanted.pending.values_at(group, where))


@pytest.mark.parametrize("seed", range(usually(5, long=30)))
def test_what_is_told_is_what_the_whole_history_says(seed: int) -> None:
    run = Run(seed)
    for number in range(STEPS):
        run.step(number)
        run.check()
        if number % 50 == 49:
            run.check_log()
    for producer in range(4):
        run.end(producer)
    state = run.shard.offsets.state
    assert len(state.pending) == 0 == state.pending.bytes
    for group in "gh":
        run.shard.offsets.delete_all(run.shard.turn(), group)
    figures = state.statistics()
    assert (figures.groups, figures.offsets, figures.memory_bytes, figures.pending) == (0, 0, 0, 0)
