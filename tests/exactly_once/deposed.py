"""The loop by hand while the group's coordinator is cut off from the nodes, and not from the program.

    python -m tests.exactly_once.deposed --rounds 20

    poll ─► a transaction of outputs and positions ─► committed, or aborted and seek_to_committed()

In each round the coordinator of the group is cut off (tests/failover/network.py): another broker coordinates, and takes
commits, and the old one hears of nothing. The program goes on at once, and aborts every third transaction. A second
consumer, which has asked the old coordinator, asks again after each commit: it is told of no older offset. In the end
a reader of committed records finds every output once. Not here: members that die (__main__.py).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import ExitStack
from typing import Final

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.failover.network import Network
from tests.support.decided import wait_decided

IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)
BATCH: Final = 20
STEPS: Final = 4
"""Transactions in each round, one of them before the cut; one more is aborted."""
CONFIG: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 300,
    "controller.quorum.election.timeout.ms": 500,
}


class Disliked(Exception):
    """The program aborts its transaction."""


class Loop:
    """The program: one consumer of a group, one transactional producer."""

    def __init__(self, consumer: Consumer, producer: Producer, watcher: Consumer) -> None:
        self._consumer, self._producer, self._watcher = consumer, producer, watcher
        self.committed = 0
        self.told_old: list[tuple[int, int]] = []
        """Offsets that the watcher was told, and what was committed before."""

    def step(self, *, aborts: bool = False) -> None:
        """One transaction of a whole batch."""
        records = []
        while len(records) < BATCH:
            records += self._consumer.poll(timeout_ms=500, max_records=BATCH - len(records))
        try:
            with self._producer.transaction() as transaction:
                for record in records:
                    transaction.send("out", record.value, partition=0)
                transaction.send_offsets(self._consumer)
                if aborts:
                    raise Disliked
        except Disliked:
            self._consumer.seek_to_committed()
            return
        self.committed += BATCH
        found = self._watcher.committed([IN])[IN]
        if found is None or found.offset < self.committed:
            self.told_old.append((-1 if found is None else found.offset, self.committed))


def run(rounds: int) -> tuple[Counter[int], Loop]:
    """How often each output is read by a reader of committed records, and the loop."""
    with ExitStack() as stack:
        network = stack.enter_context(Network(3))
        cluster = Cluster(3, CONFIG, node_configs=network.node_configs)
        network.attach(cluster)
        stack.enter_context(cluster)
        records = rounds * STEPS * BATCH
        with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
            for topic in ("in", "out"):
                admin.create_topic(topic, 1, 3)
            producer.send_many("in", [b"%d" % number for number in range(records)], partition=0)
        options = {"group_id": "g", "enable_auto_commit": False}
        watcher = stack.enter_context(Consumer(cluster.bootstrap, **options))
        consumer = stack.enter_context(Consumer(cluster.bootstrap, auto_offset_reset="earliest", **options))
        consumer.assign([IN])
        loop = Loop(consumer, stack.enter_context(Producer(cluster.bootstrap, transactional_id="loop")), watcher)
        for _ in range(rounds):
            loop.step()
            old = cluster.leader("__consumer_offsets")
            network.cut(old)
            for number in range(STEPS - 1):
                loop.step(aborts=number == 1)
            loop.step()
            network.heal(old)
            cluster.wait_in_sync("__consumer_offsets", timeout_s=60)
        return _outputs(cluster.bootstrap), loop


def _outputs(bootstrap: str) -> Counter[int]:
    found = Counter[int]()
    wait_decided(bootstrap, [OUT])
    with Consumer(bootstrap, isolation_level="read_committed") as reader:
        reader.assign([OUT])
        reader.seek_to_beginning()
        end = reader.end_offsets([OUT])[OUT]
        while int(reader.position(OUT).offset) < end:
            found.update(int(record.value or b"-1") for record in reader.poll(timeout_ms=500))
    return found


def main() -> int:
    """Runs the rounds; exit code 1 if an output is missing, is there twice, or an older offset was told."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    outputs, loop = run(rounds)
    twice = [number for number, times in outputs.items() if times > 1]
    missing = rounds * STEPS * BATCH - len(outputs)
    print(f"{len(outputs)} outputs, {missing} missing, {len(twice)} twice, {len(loop.told_old)} old offsets told")
    return 1 if missing or twice or loop.told_old else 0


if __name__ == "__main__":
    sys.exit(main())
