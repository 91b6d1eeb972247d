"""Read, process, write under faults: python -m tests.exactly_once --seconds 120 --records 200000.

    a topic of numbers ─► three members of one group ─► another topic, in transactions with the group's offsets

The members are ours (`penstock.process`), and those of confluent-kafka and of Java, through Kafka's listener
(`--kinds`). They are killed (-9) and stand still beyond their session; nodes are killed, those of the coordinators too,
stand still, and are restarted one after the other. Then a reader of committed records must find every number exactly
once, no transaction is left open, and a reader of all records tells how many were aborted. It is wrong, too, when a run
had too few faults, or when nothing was aborted in any run.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock import Admin, Producer
from penstock.errors import PenstockError
from penstock.testing import Cluster
from tests.exactly_once.java_member import java_command
from tests.exactly_once.places import GROUP, INPUT, OUTPUT, PARTITIONS, SESSION_MS
from tests.support.campaign.frame import Campaign, Report, Run
from tests.support.campaign.options import commas, option
from tests.support.campaign.processes import Processes
from tests.support.campaign.reading import copied, must_be_exactly_once, places_of

KINDS = ("ours", "confluent", "ours")
ALL_KINDS = ("ours", "confluent", "java")
NODES = 3
CONFIG = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    "min.insync.replicas": 2,
}
BETWEEN_S, DOWN_S, PAUSE_S, END_S = 3.0, 3.0, 9.0, 180.0
"""Between two faults; before what was killed comes back; more than a member's session; until everything is read."""
FAULTS_MIN = 5
END_OF_MEMBER_S = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    seconds: float = option(120.0, "of faults")
    records: int = option(200_000, "in the topic of numbers")
    kinds: tuple[str, ...] = option(KINDS, f"of the members, with commas: {', '.join(ALL_KINDS)}", type=commas)

    def __post_init__(self) -> None:
        if unknown := set(self.kinds) - set(ALL_KINDS):
            raise ValueError(f"no kind of member: {', '.join(unknown)}")


def play(run: Run[Options]) -> None:
    options = run.options
    cluster = run.cluster(NODES, CONFIG)
    with Admin(cluster.bootstrap) as admin:
        for topic in (INPUT, OUTPUT):
            admin.create_topic(topic, PARTITIONS, NODES)
    _fill(cluster.bootstrap, options.records)
    members = run.enter(Processes(run.directory))
    for number, kind in enumerate(options.kinds):
        name = f"copier-{number}"
        members.begin(name, command_of(kind, name, cluster))
    _wait_begun(cluster.bootstrap, members)
    began = run.seconds

    def then(kind: str) -> None:
        members.mend()
        run.say(f"{run.seconds - began:6.1f} s: {kind}; lag {_lag(cluster.bootstrap)}")
        time.sleep(BETWEEN_S)

    run.strike(Faults(cluster, members, run.draw).by_name(), options.seconds, then)
    _wait_read(run, cluster.bootstrap, members)
    run.report.figures["copied_s"] = round(run.seconds - began, 1)
    members.end_all(END_OF_MEMBER_S)
    found = copied(cluster.bootstrap, places_of(OUTPUT, PARTITIONS), options.records)
    must_be_exactly_once(run.report, found)
    run.report.figures |= found.figures()
    if run.faults.total() < FAULTS_MIN:
        run.report.wrong("proves-too-little", f"{run.faults.total()} faults, {FAULTS_MIN} are the least")


def judge_all(reports: Sequence[Report]) -> Iterator[str]:
    """A single run may have met no open transaction: that is luck."""
    if not sum(report.figures["aborted"] for report in reports):
        yield "no record was aborted: these runs show nothing of transactions that end in a fault; take another seed"


def command_of(kind: str, name: str, cluster: Cluster) -> list[str]:
    """A member's; its name is its transactional id, so the next one of this name fences it."""
    bootstrap = cluster.bootstrap if kind == "ours" else cluster.kafka_bootstrap
    if kind == "java":
        return java_command(name, bootstrap)
    return [sys.executable, "-m", "tests.exactly_once.member", kind, name, bootstrap]


def _fill(bootstrap: str, records: int) -> None:
    with Producer(bootstrap) as producer:
        for partition in range(PARTITIONS):
            numbers = range(partition, records, PARTITIONS)
            producer.send_many(INPUT, [b"%d" % number for number in numbers], partition=partition)
        producer.flush()


def _wait_begun(bootstrap: str, members: Processes) -> None:
    """Until a member has found its coordinator: some take seconds to start, and a fault before that proves nothing."""
    deadline = time.monotonic() + END_S
    with Admin(bootstrap) as admin:
        while "__transaction_state" not in admin.list_topics() or not admin.list_transactions():
            if time.monotonic() > deadline:
                raise TimeoutError("no member has begun")
            members.mend()
            time.sleep(0.5)


def _lag(bootstrap: str) -> int | None:
    """None: nobody can tell now."""
    try:
        with Admin(bootstrap, default_api_timeout_ms=5_000) as admin:
            lags = admin.group_lag(GROUP)
    except (PenstockError, TimeoutError):
        return None
    numbers = [one.lag for one in lags.values()]
    return None if len(numbers) < PARTITIONS or None in numbers else sum(number or 0 for number in numbers)


def _wait_read(run: Run[Options], bootstrap: str, members: Processes) -> None:
    """Until all is processed, or nothing was for END_S."""
    deadline = time.monotonic() + END_S
    least: int | None = None
    while (lag := _lag(bootstrap)) != 0:
        if lag is not None and (least is None or lag < least):
            deadline, least = time.monotonic() + END_S, lag
        if time.monotonic() > deadline:
            run.say(f"{lag} records are not processed, none of them within {END_S:.0f} s")
            return
        members.mend()
        time.sleep(1)


class Faults:
    """Each ends when what it has broken is mended again."""

    def __init__(self, cluster: Cluster, members: Processes, draw: random.Random) -> None:
        self._cluster, self._members, self._draw = cluster, members, draw

    def by_name(self) -> dict[str, Callable[[], None]]:
        return {
            "member_killed": self._member_killed,
            "member_killed_and_late": self._member_killed_and_late,
            "member_paused": self._member_paused,
            "node_killed": lambda: self._node_killed(self._draw.randrange(NODES)),
            "coordinators_killed": lambda: self._node_killed(self._cluster.leader("__transaction_state", 0)),
            "controller_killed": lambda: self._node_killed(self._cluster.controller()),
            "node_paused": self._node_paused,
            "rolling_restart": self._rolling_restart,
            "member_and_node_killed": self._member_and_node_killed,
        }

    def _member(self) -> str:
        return self._draw.choice(self._members.names())

    def _member_killed(self) -> None:
        self._members.kill(name := self._member())
        self._members.begin(name)

    def _member_killed_and_late(self) -> None:
        self._members.kill(name := self._member())
        time.sleep(SESSION_MS / 1000 + 2)
        self._members.begin(name)

    def _member_paused(self) -> None:
        self._members.pause(name := self._member())
        time.sleep(PAUSE_S)
        self._members.resume(name)

    def _node_killed(self, node: int) -> None:
        self._cluster.kill(node)
        time.sleep(DOWN_S)
        self._cluster.start(node)

    def _node_paused(self) -> None:
        with self._cluster.paused(self._draw.randrange(NODES)):
            time.sleep(DOWN_S)

    def _member_and_node_killed(self) -> None:
        self._members.kill(name := self._member())
        self._node_killed(self._draw.randrange(NODES))
        self._members.begin(name)

    def _rolling_restart(self) -> None:
        for node in range(NODES):
            self._cluster.stop(node)
            self._cluster.start(node)
            self._cluster.wait_in_sync()


CAMPAIGN = Campaign("tests.exactly_once", __doc__, Options, play, judge_all=judge_all)
