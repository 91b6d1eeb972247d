"""A run: a cluster, a producer, six members of one group, and faults one after the other until the time is over.

After each fault the group has SETTLE_S to be stable again before the next one comes. What happens to the members'
processes and to the nodes is told to the judge; what the members do is in their own accounts (member.py). Every second
an observer asks the coordinator who owns what. At the end everybody reads to the end of the topic.
"""

from __future__ import annotations

import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.groups_under_faults.member import SESSION_MS
from tests.groups_under_faults.verdict import Event, Facts, Span, Struck, Times, Verdict, judge, times

GROUP, TOPIC, PARTITIONS = "under-faults", "under-faults", 24
KINDS = ("ours", "consumer", "ours", "classic", "ours", "consumer")
SESSION_S = SESSION_MS / 1000
CONFIG = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.replication.factor": 3,
}
RECORDS_PER_S = 240
SETTLE_S, DOWN_S, PAUSE_S = 15.0, 4.0, 14.0
"""After a fault; before what was killed comes back; how long a member stands still, which is more than its session."""
START_S, END_S, NODE_S = 60.0, 60.0, 60.0
Say = Callable[[str], None]


class Nodes(Protocol):
    """The cluster under the group."""

    kafka_bootstrap: str
    bootstrap: str
    """For clients of ours; empty if there is no door for them."""

    def ids(self) -> Sequence[int]: ...

    def kill(self, node_id: int) -> None: ...

    def stop(self, node_id: int) -> None: ...

    def start(self, node_id: int) -> None:
        """Returns when it serves again."""
        ...


@dataclass(slots=True)
class Outcome:
    verdict: Verdict
    times: list[Times]
    records: int
    commits: int
    refused: Counter[str]
    is_enough: bool
    """Every kind of fault came, and every member has committed."""

    @property
    def ok(self) -> bool:
        return self.is_enough and not self.verdict.anomalies

    def table(self) -> Iterator[str]:
        by_kind: dict[str, list[Times]] = defaultdict(list)
        for each in self.times:
            by_kind[each.kind].append(each)
        yield f"{'fault':32} {'times':>5}  {'stable again, p50 max s':>24}  {'longest stall, p50 max s':>24}"
        for kind, found in by_kind.items():
            stable, stall = [each.stable_s for each in found], [each.stall_s for each in found]
            shown = [f"{statistics.median(each):.2f} {max(each):.2f}" for each in (stable, stall)]
            yield f"{kind:32} {len(found):5}  {shown[0]:>24}  {shown[1]:>24}"


class Run:
    """See the module."""

    def __init__(self, nodes: Nodes, directory: Path, kinds: Sequence[str], seed: int, say: Say) -> None:
        self._nodes, self._directory, self._kinds, self._say = nodes, directory, kinds, say
        self._draw = random.Random(seed)
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._lives: Counter[str] = Counter()
        self._deaths: dict[str, float] = {}
        self._pauses: dict[str, list[Span]] = defaultdict(list)
        self._struck: list[Struck] = []
        self._seen = Verdict()
        self._is_over = threading.Event()
        self._sent = 0

    # -- members -------------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        """A new process, with a new account, in the place of one that has ended."""
        kind, place = self._kinds[number], f"{number}-{self._kinds[number]}"
        self._lives[place] += 1
        name = f"{place}-{self._lives[place]}"
        bootstrap = self._nodes.bootstrap if kind == "ours" else self._nodes.kafka_bootstrap
        command = [sys.executable, "-m", "tests.groups_under_faults.member", kind, name, bootstrap, GROUP, TOPIC]
        with (self._directory / f"{name}.out").open("wb") as out:
            self._members[name] = subprocess.Popen([*command, str(self._account(name))], stdout=out, stderr=out)

    def _account(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"

    def _alive(self) -> list[str]:
        return [name for name, process in self._members.items() if process.poll() is None]

    def _number(self, name: str) -> int:
        return int(name.partition("-")[0])

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._members[name]
        process.send_signal(how)
        process.wait(END_S)
        if how is signal.SIGKILL:
            self._deaths[name] = time.monotonic()

    # -- faults --------------------------------------------------------------------------------------------------------

    def _member_killed(self) -> None:
        self._end(name := self._draw.choice(self._alive()), signal.SIGKILL)
        self._watch("a member is killed (-9)", SETTLE_S)
        self._begin(self._number(name))
        self._watch("a member joins", SETTLE_S)

    def _member_leaves(self) -> None:
        began = time.monotonic()
        self._end(name := self._draw.choice(self._alive()), signal.SIGTERM)
        self._watch("a member leaves", SETTLE_S, began)
        self._begin(self._number(name))
        self._watch("a member joins", SETTLE_S)

    def _member_stands_still(self) -> None:
        name = self._draw.choice(self._alive())
        began = time.monotonic()
        self._members[name].send_signal(signal.SIGSTOP)
        self._watch("a member stands still (SIGSTOP)", PAUSE_S)
        self._pauses[name].append(Span(began, time.monotonic()))
        self._members[name].send_signal(signal.SIGCONT)
        self._watch("a member goes on (SIGCONT)", SETTLE_S)

    def _coordinator_killed(self) -> None:
        began = time.monotonic()
        self._nodes.kill(node_id := self._coordinator())
        self._watch("the coordinator's node is killed (-9)", SETTLE_S, began)
        began = time.monotonic()
        self._nodes.start(node_id)
        self._watch("a node comes back", SETTLE_S, began)

    def _rolling_restart(self) -> None:
        began = time.monotonic()
        for node_id in self._nodes.ids():
            self._nodes.stop(node_id)
            self._nodes.start(node_id)
        self._watch("a rolling restart of the nodes", SETTLE_S, began)

    def _both_killed(self) -> None:
        began = time.monotonic()
        self._end(name := self._draw.choice(self._alive()), signal.SIGKILL)
        self._nodes.kill(node_id := self._coordinator())
        self._watch("a member and the coordinator's node killed", SETTLE_S + SESSION_S, began)
        self._begin(self._number(name))
        self._nodes.start(node_id)
        self._watch("both come back", SETTLE_S)

    def _faults(self) -> list[Callable[[], None]]:
        return [
            self._member_killed,
            self._member_stands_still,
            self._coordinator_killed,
            self._member_leaves,
            self._both_killed,
            self._rolling_restart,
        ]

    def _watch(self, kind: str, seconds: float, began: float | None = None) -> None:
        began = time.monotonic() if began is None else began
        self._say(kind)
        self._is_over.wait(seconds)
        self._struck.append(Struck(kind, began, time.monotonic()))

    def _coordinator(self) -> int:
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + NODE_S
        while True:
            with suppress(KafkaException, TimeoutError):
                return int(self._described().coordinator.id)
            if time.monotonic() > deadline:
                raise RuntimeError(f"the group has no coordinator after {NODE_S:.0f} s")

    def _described(self) -> Any:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self._nodes.kafka_bootstrap, "log_level": 0})
        return admin.describe_consumer_groups([GROUP], request_timeout=10)[GROUP].result(10)

    # -- the load ------------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        """One partition after the other, at a steady rate."""
        from confluent_kafka import Producer

        def acked(error: Any, _: Any) -> None:
            self._sent += error is None

        options = {"bootstrap.servers": self._nodes.kafka_bootstrap, "enable.idempotence": True, "linger.ms": 5}
        producer, number = Producer({**options, "log_level": 0}), 0
        while not self._is_over.wait(PARTITIONS / RECORDS_PER_S):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"%d" % number, partition=partition, on_delivery=acked)
                number += 1
            producer.poll(0)
        producer.flush(END_S)

    def _observe(self) -> None:
        """The coordinator must not say of a partition that two have it."""
        from confluent_kafka import KafkaException

        while not self._is_over.wait(1.0):
            try:
                described = self._described()
            except (KafkaException, TimeoutError):
                continue
            owned = Counter(
                each.partition
                for member in described.members
                for each in (member.assignment.topic_partitions if member.assignment else ())
            )
            for partition in (partition for partition, owners in owned.items() if owners > 1):
                self._seen.report("twice", f"the coordinator says that {owned[partition]} members have {partition}")

    @contextmanager
    def _running(self) -> Iterator[None]:
        threads = [threading.Thread(target=target, daemon=True) for target in (self._produce, self._observe)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(2 * END_S)

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> Outcome:
        try:
            with self._running():
                for number in range(len(self._kinds)):
                    self._begin(number)
                self._wait_stable()
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline:
                    for fault in self._draw.sample(self._faults(), len(self._faults())):
                        if time.monotonic() < deadline:
                            fault()
            ends = self._log_ends()
            self._wait_read(ends)
        finally:
            for name in self._alive():
                self._members[name].send_signal(signal.SIGCONT)
                self._end(name, signal.SIGTERM)
        return self._judged(ends)

    def _stories(self) -> dict[str, list[Event]]:
        """A last line that a kill has cut short is none."""
        found = {}
        for name in self._members:
            lines = self._account(name).read_bytes().split(b"\n")[:-1] if self._account(name).exists() else []
            found[name] = [json.loads(line) for line in lines]
        return found

    def _wait_stable(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            stories = self._stories()
            has_all = all(any(event["what"] == "assigned" for event in events) for events in stories.values())
            if has_all and len(stories) == len(self._kinds):
                self._is_over.wait(SETTLE_S / 3)
                return
            time.sleep(0.5)
        raise RuntimeError(f"the members have no assignment after {START_S:.0f} s: see {self._directory}")

    def _log_ends(self) -> dict[int, int]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._nodes.kafka_bootstrap, "group.id": "ends"})
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=END_S)[1] for each in places}
        consumer.close()
        return ends

    def _wait_read(self, ends: dict[int, int]) -> None:
        """Judged afterwards, if it does not come."""
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline:
            if not judge(self._stories(), Facts(ends)).anomalies["unread"]:
                return
            time.sleep(1.0)

    def _judged(self, ends: dict[int, int]) -> Outcome:
        stories = self._stories()
        facts = Facts(ends, self._deaths, self._pauses, SESSION_S)
        verdict = judge(stories, facts)
        verdict.anomalies.update(self._seen.anomalies)
        verdict.examples += self._seen.examples
        events = Counter(event["what"] for each in stories.values() for event in each)
        refused = Counter(event["error"] for each in stories.values() for event in each if event["what"] == "refused")
        places = {
            name.rpartition("-")[0] for name, each in stories.items() if any(e["what"] == "committed" for e in each)
        }
        is_enough = len(places) == len(self._kinds) and len(self._struck) >= len(self._faults())
        return Outcome(
            verdict, times(stories, facts, self._struck), sum(ends.values()), events["committed"], refused, is_enough
        )
