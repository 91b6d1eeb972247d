"""One run: a cluster, a topic of numbers, the members, and faults one after the other until the time is over."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock import Admin, Producer
from penstock.errors import PenstockError
from penstock.testing import Cluster
from tests.exactly_once.java_member import java_command
from tests.exactly_once.places import GROUP, INPUT, OUTPUT, PARTITIONS, SESSION_MS
from tests.exactly_once.reading import Found, read

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
Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    found: Found
    faults: Counter[str]
    seconds: float
    """From the first member to the last record."""

    @property
    def aborted(self) -> int:
        return self.found.written - self.found.committed

    @property
    def ok(self) -> bool:
        """Nothing is wrong, after enough faults. Whether one met an open transaction is luck."""
        found = self.found
        wrong = found.missing or found.doubled or found.strange or found.open_transactions
        return not wrong and self.faults.total() >= FAULTS_MIN

    def facts(self) -> dict[str, object]:
        return {**asdict(self.found), "aborted": self.aborted, "seconds": round(self.seconds, 1), **dict(self.faults)}


def run(directory: Path, kinds: Sequence[str], seed: int, records: int, seconds: float, say: Say) -> Outcome:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(NODES, CONFIG, directory=str(directory / "cluster")))
        with Admin(cluster.bootstrap) as admin:
            for topic in (INPUT, OUTPUT):
                admin.create_topic(topic, PARTITIONS, NODES)
        _fill(cluster.bootstrap, records)
        members = stack.enter_context(Members(directory, kinds, cluster))
        _wait_begun(cluster.bootstrap, members)
        began, faults = time.monotonic(), Counter[str]()
        draw = Faults(cluster, members, random.Random(seed))
        while time.monotonic() - began < seconds:
            kind = draw.next()
            faults[kind] += 1
            members.mend()
            say(f"{time.monotonic() - began:6.1f} s: {kind}; lag {_lag(cluster.bootstrap)}")
            time.sleep(BETWEEN_S)
        _wait_read(cluster.bootstrap, members, say)
        took = time.monotonic() - began
        members.stop()
        return Outcome(read(cluster.bootstrap, records), faults, took)


def _fill(bootstrap: str, records: int) -> None:
    with Producer(bootstrap) as producer:
        for partition in range(PARTITIONS):
            numbers = range(partition, records, PARTITIONS)
            producer.send_many(INPUT, [b"%d" % number for number in numbers], partition=partition)
        producer.flush()


def _wait_begun(bootstrap: str, members: Members) -> None:
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


def _wait_read(bootstrap: str, members: Members, say: Say) -> None:
    """Until all is processed, or nothing was for END_S."""
    deadline = time.monotonic() + END_S
    least: int | None = None
    while (lag := _lag(bootstrap)) != 0:
        if lag is not None and (least is None or lag < least):
            deadline, least = time.monotonic() + END_S, lag
        if time.monotonic() > deadline:
            say(f"{lag} records are not processed, none of them within {END_S:.0f} s")
            return
        members.mend()
        time.sleep(1)


class Members:
    """The processes. Each has a place, whose name is its transactional id."""

    def __init__(self, directory: Path, kinds: Sequence[str], cluster: Cluster) -> None:
        self._directory, self._kinds, self._cluster = directory, kinds, cluster
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Members:
        for place in range(len(self._kinds)):
            self.begin(place)
        return self

    def begin(self, place: int) -> None:
        kind = self._kinds[place]
        bootstrap = self._cluster.bootstrap if kind == "ours" else self._cluster.kafka_bootstrap
        name = f"copier-{place}"
        if kind == "java":
            command = java_command(name, bootstrap)
        else:
            command = [sys.executable, "-m", "tests.exactly_once.member", kind, name, bootstrap]
        with (self._directory / f"member-{place}.out").open("ab") as out:
            self._processes[place] = subprocess.Popen(command, stdout=out, stderr=out)

    def mend(self) -> None:
        """Begins those anew that have ended by themselves."""
        for place, process in self._processes.items():
            if process.poll() is not None:
                self.begin(place)

    def places(self) -> list[int]:
        return list(self._processes)

    def signal(self, place: int, how: signal.Signals) -> None:
        self._processes[place].send_signal(how)

    def kill(self, place: int) -> None:
        self._processes[place].kill()
        self._processes[place].wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for place, process in self._processes.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_OF_MEMBER_S)
            self.kill(place)

    def __exit__(self, *_: object) -> None:
        for place in self.places():
            self.kill(place)


class Faults:
    """One after the other, each kind once in a drawn order, and then again."""

    def __init__(self, cluster: Cluster, members: Members, draw: random.Random) -> None:
        self._cluster, self._members, self._draw = cluster, members, draw
        self._next: list[tuple[str, Callable[[], None]]] = []

    def next(self) -> str:
        """Its name, when what it has broken is mended again."""
        if not self._next:
            self._next = [
                ("member_killed", self._member_killed),
                ("member_killed_and_late", self._member_killed_and_late),
                ("member_paused", self._member_paused),
                ("node_killed", lambda: self._node_killed(self._draw.randrange(NODES))),
                ("coordinators_killed", lambda: self._node_killed(self._cluster.leader("__transaction_state", 0))),
                ("controller_killed", lambda: self._node_killed(self._cluster.controller())),
                ("node_paused", self._node_paused),
                ("rolling_restart", self._rolling_restart),
                ("member_and_node_killed", self._member_and_node_killed),
            ]
            self._draw.shuffle(self._next)
        name, strike = self._next.pop()
        strike()
        return name

    def _member(self) -> int:
        return self._draw.choice(self._members.places())

    def _member_killed(self) -> None:
        self._members.kill(place := self._member())
        self._members.begin(place)

    def _member_killed_and_late(self) -> None:
        self._members.kill(place := self._member())
        time.sleep(SESSION_MS / 1000 + 2)
        self._members.begin(place)

    def _member_paused(self) -> None:
        self._members.signal(place := self._member(), signal.SIGSTOP)
        time.sleep(PAUSE_S)
        self._members.signal(place, signal.SIGCONT)

    def _node_killed(self, node: int) -> None:
        self._cluster.kill(node)
        time.sleep(DOWN_S)
        self._cluster.start(node)

    def _node_paused(self) -> None:
        with self._cluster.paused(self._draw.randrange(NODES)):
            time.sleep(DOWN_S)

    def _member_and_node_killed(self) -> None:
        self._members.kill(place := self._member())
        self._node_killed(self._draw.randrange(NODES))
        self._members.begin(place)

    def _rolling_restart(self) -> None:
        for node in range(NODES):
            self._cluster.stop(node)
            self._cluster.start(node)
            self._cluster.wait_in_sync()
