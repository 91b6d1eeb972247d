"""Kills random nodes (-9) of a real cluster under load, restarts them, and says whether anything was lost.

Three nodes, three replicas, min.insync.replicas=2. Writers send small unique records with acks=all at a steady rate, a
reader follows; each round kills one node, waits until the partitions that it led ack again (the failover time), starts
it, and waits until every ISR is whole. A quarter of the rounds start the node at once, before anybody has noticed that
it was gone. In the end everything is read again and judged (kill_history.py), the nodes are stopped, and the replicas
compared (replica_bytes.py). Choices come from the seed; what the machine makes of them does not.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from penstock import Admin, Consumer, Producer
from penstock.client.future import RecordFuture
from penstock.testing import Cluster
from tests.support import replica_bytes
from tests.support.campaign_directory import in_directory
from tests.support.kill_history import History, Seen, Verdict, judge

TOPIC = "campaign"
NODES = 3
TICK_S = 0.01
ROUND_TIMEOUT_S = 60.0
START_AT_ONCE = 0.25
CALM_S_MAX = 1.0
"""Between rounds, so that a kill meets the load anywhere."""


@dataclass(frozen=True, slots=True)
class CampaignConfig:
    """`whole_isr`: a round ends only when every ISR is whole again; without it the next kill may come sooner."""

    kills: int
    seed: int = 1
    partitions: int = 6
    writers: int = 2
    records_per_tick: int = 10
    value_bytes: int = 100
    whole_isr: bool = True


@dataclass(slots=True)
class CampaignResult:
    """What came out; `directory` is kept when it is not ok."""

    verdict: Verdict
    differences: list[str]
    kills: int
    controllers_killed: int
    acked: int
    failed: int
    failovers_ms: list[int]
    seconds: float
    directory: Path

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.differences

    def as_json(self) -> dict[str, object]:
        """One object for one line."""
        failovers = self.failovers_ms
        return {
            "ok": self.ok,
            "kills": self.kills,
            "controllers_killed": self.controllers_killed,
            "acked": self.acked,
            "failed": self.failed,
            "lost": self.verdict.lost,
            "inconsistent": self.verdict.inconsistent,
            "phantom": self.verdict.phantom,
            "out_of_order": self.verdict.out_of_order,
            "duplicates": self.verdict.duplicates,
            "replicas_byte_equal": not self.differences,
            "failovers": len(failovers),
            "failover_p50_ms": round(statistics.median(failovers)) if failovers else None,
            "failover_max_ms": max(failovers, default=None),
            "seconds": round(self.seconds, 1),
            "wrong": [*self.verdict.examples, *self.differences],
        }


class AckWatch:
    """When a partition acks again: only a record that was sent after the kill counts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._since = 0.0
        self._acked_at: dict[int, float | None] = {}

    def begin(self, partitions: set[int]) -> None:
        with self._changed:
            self._since = time.monotonic()
            self._acked_at = dict.fromkeys(partitions)

    def on_ack(self, partition: int, sent_at: float) -> None:
        with self._changed:
            if sent_at > self._since and self._acked_at.get(partition, 0) is None:
                self._acked_at[partition] = time.monotonic()
                self._changed.notify_all()

    def wait_all(self, timeout_s: float) -> float:
        """The time of the last partition's first ack."""
        with self._changed:
            if not self._changed.wait_for(lambda: None not in self._acked_at.values(), timeout_s):
                silent = [p for p, at in self._acked_at.items() if at is None]
                raise TimeoutError(f"partitions {silent} have not acked for {timeout_s:g} s")
            return max(at for at in self._acked_at.values() if at is not None)


@dataclass(slots=True)
class Load:
    """The writers and the reader, each in a thread, until `stopped`."""

    bootstrap: str
    config: CampaignConfig
    watch: AckWatch = field(default_factory=AckWatch)
    history: History = field(default_factory=History)
    failed: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    ends: dict[int, int] | None = None
    """Where the reader may stop; known only when the writers have ended."""

    def write(self, writer: int) -> None:
        config, number = self.config, 0
        with Producer(self.bootstrap, acks="all", linger_ms=5) as producer:
            while not self.stopped.wait(TICK_S):
                for _ in range(config.records_per_tick):
                    value = b"%d-%d-" % (writer, number)
                    value += b"." * (config.value_bytes - len(value))
                    self.history.sent.add(value)
                    partition, sent_at = number % config.partitions, time.monotonic()
                    future = producer.send(TOPIC, value, partition=partition)
                    future.add_done_callback(partial(self._on_done, value, sent_at))
                    number += 1

    def _on_done(self, value: bytes, sent_at: float, future: RecordFuture) -> None:
        if future.exception(0) is not None:
            self.failed += 1
            return
        metadata = future.result(0)
        self.history.acked[value] = (metadata.partition, metadata.offset)
        self.watch.on_ack(metadata.partition, sent_at)

    def read(self) -> None:
        for seen in read_topic(self.bootstrap, lambda: self.ends):
            self.history.seen.append(seen)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The load is on within; after it, everything is acked and the reader has seen all of it."""
        with ThreadPoolExecutor(self.config.writers + 1) as executor:
            reader = executor.submit(self.read)
            writers = [executor.submit(self.write, index) for index in range(self.config.writers)]
            try:
                yield
            finally:
                self.stopped.set()
                try:
                    for writer in writers:
                        writer.result()
                finally:
                    self.ends = _log_ends(self.bootstrap)
            reader.result()


def run_campaign(config: CampaignConfig, say: Callable[[str], None] = lambda text: None) -> CampaignResult:
    """One campaign, from empty directories to compared replicas; the directory stays unless all is well."""
    return in_directory("kills", say, lambda directory: _run(config, directory, say))


def _run(config: CampaignConfig, directory: Path, say: Callable[[str], None]) -> CampaignResult:
    began = time.monotonic()
    with Cluster(NODES, directory=directory, config={"log.segment.bytes": 1024 * 1024}) as cluster:
        data_directories = [cluster.directory(index) for index in range(NODES)]
        load = Load(cluster.bootstrap, config)
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, config.partitions, replication_factor=NODES, config={"min.insync.replicas": 2})
            killer = Killer(cluster, admin, load.watch, config, say)
            with load.running():
                for number in range(config.kills):
                    killer.play_round(number)
                killer.wait_whole()
            load.history.log = _read_log(cluster.bootstrap)
    differences = replica_bytes.differences(data_directories, TOPIC, config.partitions)
    return CampaignResult(
        verdict=judge(load.history),
        differences=differences,
        kills=config.kills,
        controllers_killed=killer.controllers_killed,
        acked=len(load.history.acked),
        failed=load.failed,
        failovers_ms=killer.failovers_ms,
        seconds=time.monotonic() - began,
        directory=directory,
    )


class Killer:
    """The rounds: kill, wait for the next acks, start again."""

    def __init__(
        self, cluster: Cluster, admin: Admin, watch: AckWatch, config: CampaignConfig, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._watch = watch
        self._config = config
        self._say = say
        self._random = random.Random(config.seed)
        self._pause = threading.Event()
        self.controllers_killed = 0
        self.failovers_ms: list[int] = []

    def play_round(self, number: int) -> None:
        victim, at_once = self._random.randrange(NODES), self._random.random() < START_AT_ONCE
        self._pause.wait(self._random.random() * CALM_S_MAX)
        led = {p.partition for p in self._admin.describe_topic(TOPIC).partitions if p.leader_id == victim}
        controller = self._admin.describe_quorum().leader_id == victim
        self.controllers_killed += controller
        self._cluster.kill(victim)
        killed_at = time.monotonic()
        self._watch.begin(led)
        if at_once:
            self._cluster.start(victim, wait=False)
        if led:
            self.failovers_ms.append(round(1000 * (self._watch.wait_all(ROUND_TIMEOUT_S) - killed_at)))
        if not at_once:
            self._cluster.start(victim, wait=False)
        self._cluster.wait_ready()
        if self._config.whole_isr:
            self.wait_whole()
        roles = f"leader of {len(led)}" + (", controller" if controller else "") + (", started at once" * at_once)
        failover = f", acked again after {self.failovers_ms[-1]} ms" if led else ""
        self._say(f"kill {number + 1}: node {victim} ({roles}){failover}")

    def wait_whole(self) -> None:
        """Until every replica is in its ISR."""
        deadline = time.monotonic() + ROUND_TIMEOUT_S
        while True:
            partitions = self._admin.describe_topic(TOPIC).partitions
            short = {p.partition: p.isr for p in partitions if len(p.isr) < len(p.replicas)}
            if not short:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {ROUND_TIMEOUT_S:g} s these ISRs are not whole: {short}")
            self._pause.wait(TICK_S)


def read_topic(bootstrap: str, ends: Callable[[], dict[int, int] | None]) -> Iterator[Seen]:
    """Every record from the beginning to `ends`, once they are known; TimeoutError when nothing comes for long."""
    with Consumer(bootstrap) as consumer:
        partitions = consumer.partitions_for(TOPIC)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        last = time.monotonic()
        while True:
            known = ends()
            behind = [tp for tp in partitions if known is None or consumer.position(tp) < known[tp.partition]]
            if not behind:
                return
            for record in consumer.poll(timeout_ms=100):
                last = time.monotonic()
                yield Seen(record.partition, record.offset, record.value or b"")
            if time.monotonic() - last > ROUND_TIMEOUT_S:
                where = {tp.partition: consumer.position(tp) for tp in behind}
                raise TimeoutError(f"the reader stands at {where} for {ROUND_TIMEOUT_S:g} s; the ends are {known}")


def _log_ends(bootstrap: str) -> dict[int, int]:
    """By partition, the offset after the last readable record."""
    with Consumer(bootstrap) as consumer:
        return {tp.partition: end for tp, end in consumer.end_offsets(consumer.partitions_for(TOPIC)).items()}


def _read_log(bootstrap: str) -> dict[int, list[Seen]]:
    """The whole topic by a new consumer."""
    ends = _log_ends(bootstrap)
    log: dict[int, list[Seen]] = {partition: [] for partition in ends}
    for seen in read_topic(bootstrap, lambda: ends):
        log[seen.partition].append(seen)
    return log
