"""Every voter of the quorum is replaced by another disk, under a steady load: python -m tests.growth.voters.

three brokers, and five controllers in processes of their own; the first controller is the only voter
one voter after the other is added, until there are five
each is killed (-9) and comes back on an empty disk under its id: the old disk is removed, the new one is added
the leader is removed, and then another one, until there are three

All of it is done by the commands that an operator has, while records are written with acks=all and topics are made. It
is wrong when an acked record is missing or another one, when a write or a topic failed, or when the voters at the end
are not those that were asked for.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.admin import QuorumInfo
from penstock.errors import PenstockError
from tests.support.campaign.frame import Campaign, Report, Run
from tests.support.campaign.options import option
from tests.support.fleet import BROKERS, CONTROLLERS, Fleet

LEFT = 3
TOPIC, PARTITIONS = "steady", 6
TICK_S = 0.01
TOPIC_EVERY_S = 0.5
COMMAND_S = 120.0


@dataclass(frozen=True, slots=True)
class Options:
    rate: int = option(1_000, "records a second")
    calm_s: float = option(2.0, "seconds between two changes")


class Load:
    """Records with acks=all at a rate, and topics; the acks in the order in which they came."""

    def __init__(self, fleet: Fleet, report: Report, rate: int) -> None:
        self._fleet, self._report, self._rate = fleet, report, rate
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.acked: dict[tuple[int, int], bytes] = {}
        self._acked_at = time.monotonic()
        self.gap_s = self.topic_s = 0.0
        self.topics = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=work, name=work.__name__) for work in (self._write, self._make_topics)]
        self._acked_at = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _write(self) -> None:
        each, began = max(1, round(self._rate * TICK_S)), time.monotonic()
        with Producer(self._fleet.bootstrap, acks="all", linger_ms=5) as producer:
            for tick in itertools.count():
                if self._stopped.wait(max(0.0, began + tick * TICK_S - time.monotonic())):
                    break
                for number in range(tick * each, (tick + 1) * each):
                    value, partition = b"%d" % number, number % PARTITIONS
                    producer.send(TOPIC, value, partition=partition).add_done_callback(self._on_acked(partition, value))

    def _on_acked(self, partition: int, value: bytes) -> Callable[[object], None]:
        def on_done(future: object) -> None:
            try:
                offset = future.result().offset  # type: ignore[attr-defined]
            except PenstockError as error:
                self._report.wrong("failed-write", repr(error))
                return
            with self._lock:
                now = time.monotonic()
                self.acked[partition, offset] = value
                self.gap_s, self._acked_at = max(self.gap_s, now - self._acked_at), now

        return on_done

    def _make_topics(self) -> None:
        with Admin(self._fleet.bootstrap) as admin:
            while not self._stopped.wait(TOPIC_EVERY_S):
                began = time.monotonic()
                try:
                    admin.create_topic(f"made-{self.topics}", 1, BROKERS)
                except PenstockError as error:
                    self._report.wrong("failed-topic", repr(error))
                self.topics += 1
                self.topic_s = max(self.topic_s, time.monotonic() - began)

    def lost(self) -> int:
        """The acked records that a new consumer does not find where they were acked."""
        with Consumer(self._fleet.bootstrap, auto_offset_reset="earliest") as consumer:
            ends = consumer.end_offsets([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
            consumer.assign(list(ends))
            left, missing = sum(ends.values()), dict(self.acked)
            deadline = time.monotonic() + COMMAND_S
            while left > 0 and time.monotonic() < deadline:
                for record in consumer.poll(1_000):
                    left -= 1
                    if missing.get((record.partition, record.offset)) == record.value:
                        del missing[record.partition, record.offset]
        return len(missing)


class Operator:
    """Changes the voters by the commands, and measures how long each took."""

    def __init__(self, run: Run[Options], fleet: Fleet, admin: Admin) -> None:
        self._run, self._fleet, self._admin = run, fleet, admin
        self.seconds: dict[str, list[float]] = {"add": [], "remove": [], "replace": []}

    def quorum(self) -> QuorumInfo:
        return self._admin.describe_quorum()

    def add(self, node: int) -> None:
        self._fleet.start(node) if node not in self._fleet.nodes else None
        self._timed("add", f"voter {node} is added", "quorum", "add-voter", self._fleet.voter(node))

    def remove(self, voter: str, what: str) -> None:
        self._timed("remove", what, "quorum", "remove-voter", voter, "--yes")

    def replace(self, node: int) -> None:
        """The same id on an empty disk."""
        old, began = self._fleet.voter(node), time.monotonic()
        self._fleet.empty(node)
        self.remove(old, f"the old disk of {node} is removed")
        self._timed("add", f"the new disk of {node} is added", "quorum", "add-voter", self._fleet.voter(node))
        self.seconds["replace"].append(round(time.monotonic() - began, 2))

    def _timed(self, kind: str, what: str, *command: str) -> None:
        time.sleep(self._run.options.calm_s)
        began = time.monotonic()
        program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
        whole = [sys.executable, "-c", program, *command, "--bootstrap", self._fleet.bootstrap]
        done = subprocess.run(
            whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        self.seconds[kind].append(round(time.monotonic() - began, 2))
        self._run.say(f"{self.seconds[kind][-1]:6.2f} s: {what}")
        if done.returncode:
            raise AssertionError(f"{' '.join(command)} was refused: {done.stderr.strip()[-300:]}")


def play(run: Run[Options]) -> None:
    fleet = run.enter(Fleet(run.directory).running())
    for node in range(BROKERS + CONTROLLERS):
        fleet.make(node)
    first, *others = fleet.controllers
    fleet.format(first, "--standalone")
    for node in others:
        fleet.format(node, "--join")
    fleet.start(first, *range(BROKERS))
    with Admin(fleet.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, BROKERS)
        load, operator = Load(fleet, run.report, run.options.rate), Operator(run, fleet, admin)
        with load.running():
            epoch = operator.quorum().leader_epoch
            for node in others:
                operator.add(node)
            for node in fleet.controllers:
                operator.replace(node)
            for _ in range(CONTROLLERS - LEFT):
                leader = operator.quorum().leader_id
                operator.remove(fleet.voter(leader), f"the leader {leader} is removed")
            time.sleep(run.options.calm_s)
        found = operator.quorum()
        _judge(run.report, fleet, found)
        run.report.figures |= {
            "acked": len(load.acked),
            "lost": load.lost(),
            "longest_gap_of_acks_s": round(load.gap_s, 2),
            "topics": load.topics,
            "slowest_topic_s": round(load.topic_s, 2),
            "elections": found.leader_epoch - epoch,
            **{f"{kind}_s": seconds for kind, seconds in operator.seconds.items()},
        }
    if run.report.figures["lost"]:
        run.report.wrong("lost", f"{run.report.figures['lost']} acked records")


def _judge(report: Report, fleet: Fleet, found: QuorumInfo) -> None:
    voters = {voter.node_id: voter.directory_id for voter in found.voters}
    disks = {node: fleet.directory_id(node) for node in fleet.controllers}
    if len(voters) != LEFT or not voters.items() <= disks.items():
        report.wrong("voters", f"{voters} of the disks {disks}")


CAMPAIGN = Campaign("tests.growth.voters", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
