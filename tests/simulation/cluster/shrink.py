"""Cuts a plan that fails down to the shortest story that still fails in the same way.

    faults ─► time ─► writers, readers, operators, topics ─► nodes ─► plainer values ─► once more from the start

Faults go first, in halves, quarters, … and one by one (delta debugging: Zeller and Hildebrandt, "Simplifying and
Isolating Failure-Inducing Input", IEEE TSE 2002). A change of a plan also changes the order of everything that is left,
so each candidate has a few tries with other seeds. The number of runs has a limit; what was found until then is the
answer. Not here: how a plan is printed (plan_text.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import (
    BATCH_BYTES,
    DELIVERY_TIMEOUT_MS,
    Fault,
    Plan,
    ReaderKind,
    Task,
    TopicKind,
    TopicPlan,
)
from tests.simulation.cluster.scheduler import Process
from tests.simulation.cluster.world import World

RUNS_MAX, TRIES = 200, 2
OTHER_SEEDS = 1_000_003
"""Between the seeds of two tries."""
PLAIN_CONFIG = (
    "num.replica.fetchers",
    "num.io.threads",
    "log.segment.bytes",
    "replica.fetch.wait.max.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "producer.id.expiration.ms",
    "producer.id.max.per.partition",
    "producer.id.max.per.node",
)
"""These may be left out; without the others a story takes longer."""
Run = Callable[[Plan], Sequence[str]]
"""Returns the failures of a plan."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The remaining plan, its failure, and the number of runs that it took."""

    plan: Plan
    kind: str
    runs: int


def first_failure(plan: Plan) -> list[str]:
    """Runs a plan to its first failure."""
    world = World(plan)
    note = world.scheduler.after_step

    def after_step(process: Process) -> None:
        note(process)
        assert not world.outcome.failures, "stopped at the first failure"

    world.scheduler.after_step = after_step
    return world.run().failures[:1]


def kind_of(failure: str) -> str:
    """A failure without what differs from run to run: two of one kind are taken for the same fault."""
    if found := re.search(r"\b(I\d+)\b", failure):
        return found.group(1)
    if found := re.search(r"(nobody has caught|the story broke off: )\W*(\w+)", failure):
        return f"{found.group(1)} {found.group(2)}"
    if found := re.match(r"not within \d+ s: ([^:]*)", failure):
        return f"not within its time: {found.group(1)}"
    return re.sub(r"\d+", "#", failure.partition(":")[0])


def shrink(plan: Plan, run: Run, runs_max: int = RUNS_MAX, tries: int = TRIES) -> Shrunk | None:
    """None: the plan does not fail."""
    failures = run(plan)
    if not failures:
        return None
    search = _Search(plan, kind_of(failures[0]), run, runs_max, tries)
    before = None
    while before != search.plan and search.runs < runs_max:
        before = search.plan
        search.cut(lambda p: p.faults, lambda p, kept: replace(p, faults=kept))
        search.try_each(_shorter)
        search.cut(lambda p: p.writers, lambda p, kept: replace(p, writers=kept))
        search.cut(lambda p: p.readers, lambda p, kept: replace(p, readers=kept))
        search.cut(lambda p: p.kafka_writers, lambda p, kept: replace(p, kafka_writers=kept))
        search.cut(lambda p: p.kafka_readers, lambda p, kept: replace(p, kafka_readers=kept))
        search.cut(lambda p: p.floods, lambda p, kept: replace(p, floods=kept))
        search.cut(lambda p: p.operators, lambda p, kept: replace(p, operators=kept))
        search.cut(lambda p: p.topics, _with_topics)
        search.try_each(_fewer_nodes)
        search.try_each(_plainer)
    return Shrunk(search.plan, search.kind, search.runs)


class _Search:
    """The smallest plan so far."""

    def __init__(self, plan: Plan, kind: str, run: Run, runs_max: int, tries: int) -> None:
        self.plan, self.kind, self.runs = plan, kind, 1
        self._run, self._runs_max, self._tries = run, runs_max, tries
        self._known = {repr(plan)}

    def takes(self, candidate: Plan) -> bool:
        """True if the candidate fails in the same way; it is then the plan."""
        if repr(candidate) in self._known or not is_possible(candidate):
            return False
        self._known.add(repr(candidate))
        for number in range(self._tries):
            if self.runs >= self._runs_max:
                return False
            self.runs += 1
            tried = replace(candidate, seed=candidate.seed + number * OTHER_SEEDS)
            if self.kind in map(kind_of, self._run(tried)):
                self.plan = tried
                return True
        return False

    def cut(self, parts: Callable[[Plan], tuple[T, ...]], with_parts: Callable[[Plan, tuple[T, ...]], Plan]) -> None:
        """Leaves parts out: large pieces first."""
        size = len(parts(self.plan))
        while size:
            at = 0
            while at < len(have := parts(self.plan)):
                if not self.takes(with_parts(self.plan, have[:at] + have[at + size :])):
                    at += size
            size //= 2

    def try_each(self, candidates: Callable[[Plan], Iterator[Plan]]) -> None:
        """Takes what still fails, until nothing does."""
        while any(self.takes(candidate) for candidate in candidates(self.plan)):
            pass


def is_possible(plan: Plan) -> bool:
    """True if such a cluster can be: enough nodes of each role, and a place for each fault and client."""
    brokers, names = len(plan.brokers), {topic.name for topic in plan.topics}
    clients = (*plan.writers, *plan.readers, *plan.kafka_writers, *plan.kafka_readers, *plan.operators)
    return (
        bool(plan.topics and plan.voters and brokers)
        and all(topic.replication_factor <= brokers for topic in plan.topics)
        and all(max(fault.target, fault.other) < len(plan.nodes) for fault in plan.faults)
        and all(client.topic in names for client in clients)
    )


# -- candidates --------------------------------------------------------------------------------------------------------


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Less time before the first fault, between two, and after the last; shorter faults."""
    early = min((fault.at_s for fault in plan.faults), default=0.0)
    if early > 1.0:
        moved = tuple(replace(fault, at_s=fault.at_s - early + 1.0) for fault in plan.faults)
        yield replace(plan, faults=moved, seconds=plan.seconds - early + 1.0)
    last = max((fault.at_s for fault in plan.faults), default=0.0)
    for seconds in (last + 1.0, (last + plan.seconds) / 2):
        if seconds < plan.seconds - 0.5:
            yield replace(plan, seconds=seconds)
    for at, fault in enumerate(plan.faults):
        gap = fault.at_s - plan.faults[at - 1].at_s if at else 0.0
        if gap > 1.0:
            later = tuple(replace(each, at_s=each.at_s - gap / 2) for each in plan.faults[at:])
            yield replace(plan, faults=plan.faults[:at] + later, seconds=plan.seconds - gap / 2)
        if fault.seconds > 1.0:
            yield _with_fault(plan, at, replace(fault, seconds=fault.seconds / 2))


def _with_fault(plan: Plan, at: int, fault: Fault) -> Plan:
    return replace(plan, faults=(*plan.faults[:at], fault, *plan.faults[at + 1 :]))


def _with_topics(plan: Plan, topics: tuple[TopicPlan, ...]) -> Plan:
    """And with the clients that they have."""
    names = {topic.name for topic in topics}
    return replace(
        plan,
        topics=topics,
        writers=tuple(writer for writer in plan.writers if writer.topic in names),
        readers=tuple(reader for reader in plan.readers if reader.topic in names),
        kafka_writers=tuple(writer for writer in plan.kafka_writers if writer.topic in names),
        kafka_readers=tuple(reader for reader in plan.kafka_readers if reader.topic in names),
        operators=tuple(operator for operator in plan.operators if operator.topic in names),
    )


def _fewer_nodes(plan: Plan) -> Iterator[Plan]:
    """Without one that no fault is of, the last first; topics then have as many replicas as there are brokers left. A
    plan names the voters that change by their places."""
    if plan.voter_changes is not None or plan.levels is not None:
        return
    for gone in reversed(range(len(plan.nodes))):
        if len(plan.nodes) == 1 or any(fault.target == gone for fault in plan.faults):
            continue
        nodes = plan.nodes[:gone] + plan.nodes[gone + 1 :]

        def moved(at: int, gone: int = gone) -> int:
            return at - (at > gone)

        def other(fault: Fault, gone: int = gone, count: int = len(nodes)) -> int:
            return (moved(fault.target, gone) + 1) % count if fault.other == gone else moved(fault.other, gone)

        faults = tuple(replace(f, target=moved(f.target), other=other(f)) for f in plan.faults)
        yield _with_replication(replace(plan, nodes=nodes, faults=faults), sum(node.is_broker for node in nodes))


def _with_replication(plan: Plan, most: int) -> Plan:
    config = dict(plan.config)
    for key in ("default.replication.factor", "min.insync.replicas"):
        if key in config:
            config[key] = min(int(str(config[key])), max(1, most))
    topics = tuple(replace(topic, replication_factor=min(topic.replication_factor, most)) for topic in plan.topics)
    return replace(plan, config=config, topics=topics)


def _plainer(plan: Plan) -> Iterator[Plan]:
    """One oddity less."""
    yield replace(plan, security=None)
    yield replace(plan, weather=Weather())
    yield replace(plan, cold_share=0.0)
    yield replace(plan, nodes=tuple(replace(node, clock_rate=1.0) for node in plan.nodes))
    yield replace(plan, nodes=tuple(replace(node, log_dirs=1) for node in plan.nodes))
    yield replace(plan, topics=tuple(replace(topic, partitions=1) for topic in plan.topics))
    for number, topic in enumerate(plan.topics):
        yield from _with_plain_topic(plan, number, topic)
    yield replace(plan, config=_without(plan.config, PLAIN_CONFIG))
    for key in PLAIN_CONFIG:
        yield replace(plan, config=_without(plan.config, (key,)))
    yield replace(plan, readers=tuple(replace(r, pause_s=0.05, kind=ReaderKind.FOLLOW) for r in plan.readers))
    yield replace(plan, writers=tuple(replace(w, is_keyed=False, acks="all", in_bulk=False) for w in plan.writers))
    yield replace(plan, writers=tuple(replace(w, batch_bytes=BATCH_BYTES, is_dated=False) for w in plan.writers))
    yield replace(plan, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
    yield replace(plan, writers=tuple(replace(w, linger_ms=1, pause_s=0.2, records=1) for w in plan.writers))
    rounded = tuple(
        replace(f, at_s=round(f.at_s, 1), seconds=round(f.seconds, 1), amount=round(f.amount, 2)) for f in plan.faults
    )
    yield replace(plan, faults=rounded, seconds=float(round(plan.seconds + 0.5)))


def _with_plain_topic(plan: Plan, number: int, topic: TopicPlan) -> Iterator[Plan]:
    """From whose log nothing is deleted. A compacted one has clients of its own, and stays."""
    if topic.kind is not TopicKind.COMPACTED:
        plain = replace(topic, config={}, kind=TopicKind.PLAIN)
        left = tuple(each for each in plan.operators if each.topic != topic.name or each.task in (Task.ASK, Task.ALTER))
        yield replace(plan, topics=(*plan.topics[:number], plain, *plan.topics[number + 1 :]), operators=left)


def _without(config: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    return {key: value for key, value in config.items() if key not in keys}
