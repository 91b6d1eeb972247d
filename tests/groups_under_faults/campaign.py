"""A consumer group under faults: python -m tests.groups_under_faults --minutes 10.

    a producer ─► 24 partitions on three nodes ─► six members of one group: three of ours, two of confluent-kafka by
                                                   the consumer protocol, one by the classic protocol

Members are killed (-9), stand still beyond their session (SIGSTOP), leave and come back; the coordinator's node is
killed, also together with a member; the nodes are restarted one after the other. After each fault the group has
SETTLE_S to be stable again before the next one comes. What happens to the members' processes and to the nodes is told
to the judge (verdict.py); what the members do is in their own accounts (member.py). Every second an observer asks the
coordinator who owns what. At the end everybody reads to the end of the topic. Prints how long the group was not stable
after each kind of fault. With `--peers DIR` a real Kafka is under the members of confluent-kafka: that says what this
program itself takes for wrong. A run that proves too little is wrong.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.groups_under_faults.clusters import GROUP, NODE_S, PARTITIONS, TOPIC, Nodes, kafka, penstock
from tests.groups_under_faults.member import SESSION_MS
from tests.groups_under_faults.verdict import Event, Facts, Span, Struck, Times, Verdict, judge, times
from tests.support.campaign.beside import beside, every
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import commas, option
from tests.support.campaign.processes import Processes

KINDS = ("ours", "consumer", "ours", "classic", "ours", "consumer")
SESSION_S = SESSION_MS / 1000
RECORDS_PER_S = 240
SETTLE_S, DOWN_S, PAUSE_S = 15.0, 4.0, 14.0
"""After a fault; before what was killed comes back; how long a member stands still, which is more than its session."""
START_S, END_S = 60.0, 60.0
OBSERVE_S = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    minutes: float = option(10.0, "of faults")
    kinds: tuple[str, ...] = option(KINDS, "of the members, with commas: ours, consumer or classic", type=commas)
    peers: str = option("", "the folder of a peers.py that starts Kafka", metavar="DIR")


def play(run: Run[Options]) -> None:
    if run.options.peers:
        kinds = [kind for kind in run.options.kinds if kind != "ours"]
        Story(run, kafka(run, Path(run.options.peers).absolute()), kinds).tell()
    else:
        Story(run, penstock(run), run.options.kinds).tell()


class Story:
    """One group; see the module."""

    def __init__(self, run: Run[Options], nodes: Nodes, kinds: Sequence[str]) -> None:
        self._run, self._nodes, self._kinds = run, nodes, kinds
        self._members = run.enter(Processes(run.directory))
        self._lives: Counter[str] = Counter()
        self._deaths: dict[str, float] = {}
        self._pauses: dict[str, list[Span]] = defaultdict(list)
        self._struck: list[Struck] = []
        self._seen = Verdict()

    def tell(self) -> None:
        with beside(self._produce, every(OBSERVE_S, self._observe)):
            for number in range(len(self._kinds)):
                self._begin(number)
            self._wait_stable()
            self._run.strike(self._faults(), 60 * self._run.options.minutes, lambda name: None)
        ends = self._log_ends()
        self._wait_read(ends)
        self._run.report.all_wrong("did-not-end", self._members.end_all(END_S))
        self._judge(ends)

    # -- members -------------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        """A new process, with a new account, in the place of one that has ended."""
        kind, place = self._kinds[number], f"{number}-{self._kinds[number]}"
        self._lives[place] += 1
        name = f"{place}-{self._lives[place]}"
        bootstrap = self._nodes.bootstrap if kind == "ours" else self._nodes.kafka_bootstrap
        command = [sys.executable, "-m", "tests.groups_under_faults.member", kind, name, bootstrap, GROUP, TOPIC]
        self._members.begin(name, [*command, str(self._account(name))])

    def _begin_next(self, name: str) -> None:
        self._begin(int(name.partition("-")[0]))

    def _account(self, name: str) -> Path:
        return self._run.directory / f"{name}.jsonl"

    def _drawn(self) -> str:
        return self._run.draw.choice(self._members.alive())

    def _kill(self) -> str:
        self._members.kill(name := self._drawn())
        self._deaths[name] = time.monotonic()
        return name

    # -- faults --------------------------------------------------------------------------------------------------------

    def _faults(self) -> dict[str, Callable[[], None]]:
        return {
            "member_killed": self._member_killed,
            "member_stands_still": self._member_stands_still,
            "coordinator_killed": self._coordinator_killed,
            "member_leaves": self._member_leaves,
            "both_killed": self._both_killed,
            "rolling_restart": self._rolling_restart,
        }

    def _watch(self, kind: str, seconds: float, began: float | None = None) -> None:
        began = time.monotonic() if began is None else began
        self._run.say(kind)
        time.sleep(seconds)
        self._struck.append(Struck(kind, began, time.monotonic()))

    def _member_killed(self) -> None:
        name = self._kill()
        self._watch("a member is killed (-9)", SETTLE_S)
        self._begin_next(name)
        self._watch("a member joins", SETTLE_S)

    def _member_leaves(self) -> None:
        began = time.monotonic()
        self._members.end(name := self._drawn(), END_S)
        self._watch("a member leaves", SETTLE_S, began)
        self._begin_next(name)
        self._watch("a member joins", SETTLE_S)

    def _member_stands_still(self) -> None:
        name = self._drawn()
        began = time.monotonic()
        self._members.pause(name)
        self._watch("a member stands still (SIGSTOP)", PAUSE_S)
        self._pauses[name].append(Span(began, time.monotonic()))
        self._members.resume(name)
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
        name = self._kill()
        self._nodes.kill(node_id := self._coordinator())
        self._watch("a member and the coordinator's node killed", SETTLE_S + SESSION_S, began)
        self._begin_next(name)
        self._nodes.start(node_id)
        self._watch("both come back", SETTLE_S)

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

    def _produce(self, is_over: threading.Event) -> None:
        """One partition after the other, at a steady rate."""
        from confluent_kafka import Producer

        options = {"bootstrap.servers": self._nodes.kafka_bootstrap, "enable.idempotence": True, "linger.ms": 5}
        producer, number = Producer({**options, "log_level": 0}), 0
        while not is_over.wait(PARTITIONS / RECORDS_PER_S):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"%d" % number, partition=partition)
                number += 1
            producer.poll(0)
        producer.flush(END_S)

    def _observe(self) -> None:
        """The coordinator must not say of a partition that two have it."""
        from confluent_kafka import KafkaException

        try:
            described = self._described()
        except (KafkaException, TimeoutError):
            return
        owned = Counter(
            each.partition
            for member in described.members
            for each in (member.assignment.topic_partitions if member.assignment else ())
        )
        for partition in (partition for partition, owners in owned.items() if owners > 1):
            self._seen.report("twice", f"the coordinator says that {owned[partition]} members have {partition}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def _stories(self) -> dict[str, list[Event]]:
        """A last line that a kill has cut short is none."""
        found = {}
        for name in self._members.names():
            lines = self._account(name).read_bytes().split(b"\n")[:-1] if self._account(name).exists() else []
            found[name] = [json.loads(line) for line in lines]
        return found

    def _wait_stable(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            stories = self._stories()
            has_all = all(any(event["what"] == "assigned" for event in events) for events in stories.values())
            if has_all and len(stories) == len(self._kinds):
                time.sleep(SETTLE_S / 3)
                return
            time.sleep(0.5)
        raise RuntimeError(f"the members have no assignment after {START_S:.0f} s: see {self._run.directory}")

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

    def _judge(self, ends: dict[int, int]) -> None:
        stories, report = self._stories(), self._run.report
        facts = Facts(ends, self._deaths, self._pauses, SESSION_S)
        for verdict in (judge(stories, facts), self._seen):
            report.take(verdict.anomalies, verdict.examples)
        events = Counter(event["what"] for each in stories.values() for event in each)
        refused = Counter(event["error"] for each in stories.values() for event in each if event["what"] == "refused")
        places = {
            name.rpartition("-")[0] for name, each in stories.items() if any(e["what"] == "committed" for e in each)
        }
        if len(places) < len(self._kinds):
            report.wrong("proves-too-little", f"of the members only {sorted(places)} have committed")
        if missing := self._faults().keys() - self._run.faults.keys():
            report.wrong("proves-too-little", f"these faults did not come: {', '.join(sorted(missing))}")
        report.table += table_of(times(stories, facts, self._struck))
        report.figures |= {"records": sum(ends.values()), "commits": events["committed"], "refused": dict(refused)}


def table_of(found: Sequence[Times]) -> Iterator[str]:
    by_kind: dict[str, list[Times]] = defaultdict(list)
    for each in found:
        by_kind[each.kind].append(each)
    yield f"{'fault':32} {'times':>5}  {'stable again, p50 max s':>24}  {'longest stall, p50 max s':>24}"
    for kind, those in by_kind.items():
        stable, stall = [each.stable_s for each in those], [each.stall_s for each in those]
        shown = [f"{statistics.median(each):.2f} {max(each):.2f}" for each in (stable, stall)]
        yield f"{kind:32} {len(those):5}  {shown[0]:>24}  {shown[1]:>24}"


CAMPAIGN = Campaign("tests.groups_under_faults", __doc__, Options, play)
