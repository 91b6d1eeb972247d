"""Faults on a real cluster under load: python -m tests.chaos --seeds 1..10 --minutes 2 [--only kill] [--secure].

Every seed is a run of its own: three node processes, clients that never rest, faults that follow from the seed, and the
verdict (ledger.py says which anomalies there are). What happened is in history.jsonl, in the directory of the run.

Three nodes of three log dirs, three replicas, min.insync.replicas=2. Topic `steady` lives through the run; `reborn` is
deleted and made anew when the plan says so. In the end the writers close, every reader goes to the end, a new consumer
reads everything again, the nodes are stopped, and the replicas compared byte by byte. The faults follow from the seed;
what the machine makes of them does not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from penstock import Admin, Consumer, TopicPartition
from penstock.client.producer.sequences import IN_FLIGHT_MAX
from penstock.errors import PenstockError, TopicExistsError
from penstock.testing import Cluster, NodeFailedError
from tests.chaos.faults import LOG_DIRS, NODES, Kind, plan
from tests.chaos.history import History
from tests.chaos.hung_disks import HANG_MS_MAX, HungDisks, nodes_that_can_hang
from tests.chaos.ledger import Ledger
from tests.chaos.operator import Operator, StuckError, delete_until_gone
from tests.chaos.readers import Readers, take_arrow, take_poll
from tests.chaos.security import Security
from tests.chaos.writers import IMPATIENT_OPTIONS, Writers
from tests.support import replica_bytes
from tests.support.campaign.frame import Campaign, Report, Run, Say
from tests.support.campaign.options import option
from tests.support.power_disk import PowerDisk, power_disk, why_no_power_cut
from tests.support.small_disk import small_disk

STEADY, STEADY_PARTITIONS = "steady", 6
REBORN, REBORN_PARTITIONS = "reborn", 2
DISK_BYTES = 64 * 1024 * 1024
"""The disk that gets full: room for what half an hour writes there."""
NODE_DISK_BYTES = 2 * 1024 * 1024 * 1024
"""A node's disk whose power can be cut. Its image takes only what is written."""
KEYED, BULK, TO_PARTITIONS, KEYED_REBORN, ASYNC, IMPATIENT = range(6)
WRITERS = ("keyed", "bulk", "to partitions", "keyed, reborn", "async", "impatient")
ENDS_TIMEOUT_S = 60.0
RETRY_S = 0.2
SPARK_READS = 6
SPARK_FROM_MINUTES = 1.0
"""Shorter runs do without Spark, whose start takes ten seconds."""
CLUSTER_CONFIG: dict[str, object] = {"log.segment.bytes": 256 * 1024, "log.dir.hang.ms.max": HANG_MS_MAX}
TOPIC_CONFIG = {"min.insync.replicas": 2}


@dataclass(frozen=True, slots=True)
class Options:
    """Ends after `minutes`, or after so many faults when `faults_max` is given."""

    seed: int = 1
    minutes: float = option(1.0, "of faults, for each seed")
    only: tuple[Kind, ...] = option(
        (), "these faults and no others", type=Kind, action="append", choices=list(Kind), metavar="FAULT"
    )
    secure: bool = option(False, "TLS, log-ins and ACLs (security.py); certificates are replaced")
    spark_reads: int = option(-1, f"at most; {SPARK_READS} from {SPARK_FROM_MINUTES:g} minute on")
    faults_max: int | None = None

    @property
    def spark_reads_max(self) -> int:
        if self.spark_reads >= 0:
            return self.spark_reads
        return SPARK_READS if self.minutes >= SPARK_FROM_MINUTES else 0


def playable(kinds: Sequence[Kind], say: Say) -> tuple[Kind, ...]:
    """The kinds that this machine and user can play; says why others are left out."""
    left_out: set[Kind] = set()
    if Kind.FULL in kinds and os.geteuid() != 0:
        say("no disk gets full here: that takes a mount, and therefore root")
        left_out.add(Kind.FULL)
    if Kind.POWER_CUT in kinds and (why := why_no_power_cut()):
        say(f"no power is cut here: {why}")
        left_out.add(Kind.POWER_CUT)
    return tuple(kind for kind in kinds if kind not in left_out)


@dataclass(frozen=True, slots=True)
class Disks:
    """`log_dirs[i]` and `of_nodes[i]` are those of node i; without power cuts, `of_nodes` is empty."""

    log_dirs: list[list[Path]]
    of_nodes: list[list[PowerDisk]]
    full: Path | None


def play(run: Run[Options]) -> None:
    """One run, from empty directories to compared replicas."""
    options, kinds = run.options, playable(run.options.only or tuple(Kind), run.say)
    disks = _disks(run, kinds)
    own = [{"log.dirs": [str(path) for path in paths], "metadata.log.dir": str(paths[0])} for paths in disks.log_dirs]
    history, ledger = run.enter(History(run.directory / "history.jsonl")), Ledger()
    if Kind.HANG_DISK in kinds:
        run.enter(nodes_that_can_hang(disks.log_dirs))
    cluster = run.cluster(NODES, CLUSTER_CONFIG, node_configs=own, secure=options.secure)
    security = Security(cluster, ledger, history)
    with Admin(cluster.bootstrap, **cluster.client_options) as admin:
        reads = options.spark_reads_max
        load = Load(cluster.bootstrap, admin, ledger, history, options.seed, reads, recreates=Kind.RECREATE in kinds)
        operator = Operator(
            cluster,
            admin,
            ledger,
            history,
            disks.log_dirs,
            load.remake,
            load.topics,
            load.hung_disks,
            disks.full,
            disks.of_nodes,
        )
        with security.on(admin, STEADY) if options.secure else nullcontext():
            _strike(run, kinds, load, operator, security)
        run.say("stopping the nodes")
        _stop_all(cluster, operator)
    load.judge(run.report)
    for topic, partitions in load.partitions.items():
        run.report.all_wrong("different-replicas", replica_bytes.differences(disks.log_dirs, topic, partitions))
    run.report.figures |= operator.counts.found
    if options.secure:
        run.report.figures |= {"renewals": security.renewals, "strangers": dict(security.refused)}


def _by_name(counts: Mapping[int, int]) -> dict[str, int]:
    return {WRITERS[number]: count for number, count in counts.items() if count}


def _disks(run: Run[Options], kinds: Sequence[Kind]) -> Disks:
    """Mounts what the faults need. One node has a log dir more, whose disk can be full."""
    homes = [run.directory / f"node-{node}" for node in range(NODES)]
    of_nodes: list[list[PowerDisk]] = []
    if Kind.POWER_CUT in kinds:
        of_nodes = [[run.enter(power_disk(home, NODE_DISK_BYTES))] for home in homes]
    log_dirs = [[home / f"d{number}" for number in range(LOG_DIRS)] for home in homes]
    if Kind.FULL not in kinds:
        return Disks(log_dirs, of_nodes, None)
    full, node = run.directory / "disk", run.options.seed % NODES
    if of_nodes:
        of_nodes[node].append(run.enter(power_disk(full, DISK_BYTES)))
    else:
        run.enter(small_disk(full, DISK_BYTES))
    log_dirs[node].append(full / "log")
    return Disks(log_dirs, of_nodes, full)


def _strike(run: Run[Options], kinds: Sequence[Kind], load: Load, operator: Operator, security: Security) -> None:
    """The faults under load; a cluster that does not come back is an anomaly, and the end of the run."""
    options, deadline = run.options, time.monotonic() + 60 * run.options.minutes
    with load.running():
        try:
            for number, fault in enumerate(islice(plan(options.seed, kinds), options.faults_max), 1):
                if options.faults_max is None and time.monotonic() > deadline:
                    break
                run.say(f"{number}. {fault}")
                run.faults[fault.kind] += 1
                security.renew()
                operator.play(fault)
            operator.wait_whole()
        except (StuckError, NodeFailedError) as error:
            operator.ledger.report("stuck", str(error))
            operator.history.write("stuck", error=str(error)[:2000])
            run.say(f"stuck: {error}")
            load.readers.aborted.set()
        run.say("the writers stop, the readers go to the end")


def _stop_all(cluster: Cluster, operator: Operator) -> None:
    for node in range(NODES):
        operator.counts.take(cluster.metrics_url(node))
        try:
            cluster.stop(node)
        except NodeFailedError as error:
            operator.ledger.report("bad-stop", str(error)[:300])


@dataclass(slots=True)
class Load:
    """The topics, and the clients' threads."""

    bootstrap: str
    admin: Admin
    ledger: Ledger
    history: History
    seed: int
    spark_reads: int = 0
    recreates: bool = False
    logs: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    hung_disks: HungDisks = field(init=False)
    writers: Writers = field(init=False)
    readers: Readers = field(init=False)
    _executor: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(16, "chaos"))
    _reborn_gone: threading.Event = field(default_factory=threading.Event)
    _reading: list[Future[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hung_disks = HungDisks(self.admin, self.ledger)
        self.writers = Writers(self.bootstrap, self.ledger, self.history, self.hung_disks)
        self.readers = Readers(self.bootstrap, self.ledger, self.history)

    def judge(self, report: Report) -> None:
        """The ledger's verdict, and the figures of the producers: a doubt needs a reason, and a run of single batches
        shows nothing."""
        for number, count in self.writers.possible_duplicates.items():
            if count and number != KEYED_REBORN and not self.writers.failed[number]:
                text = f"{WRITERS[number]}: possible_duplicates is {count}, but no record failed and no log was lost"
                self.ledger.report("doubts", text)
        in_flight = max(self.writers.in_flight_max.values(), default=0)
        if in_flight != IN_FLIGHT_MAX:
            text = f"{in_flight} batches of a partition were with a broker at a time, {IN_FLIGHT_MAX} are to be"
            self.ledger.report("in-flight", text)
        verdict = self.ledger.judge(self.writers.possible_duplicates)
        report.take(verdict.anomalies, verdict.examples)
        report.figures |= {
            "sent": verdict.sent,
            "acked": verdict.acked,
            "failed": _by_name(self.writers.failed),
            "read": verdict.read,
            "duplicates": verdict.duplicates,
            "possible_duplicates": _by_name(self.writers.possible_duplicates),
            "in_flight_max": in_flight,
            "batches_retried": self.writers.batches_retried,
            "spark_reads": self.readers.spark_reads,
            "worst_ack_s": round(self.writers.worst_ack_s, 1),
            "acked_beside_hung_disks": self.hung_disks.acked_beside,
            "worst_ack_beside_hung_disks_s": round(self.hung_disks.worst_ack_s, 2),
        }

    def topics(self) -> list[str]:
        """The topics that exist."""
        return list(self.logs)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The load is on within; after it, all is acked or failed, and the readers have come to the end."""
        with self._executor:
            writing = self._start()
            try:
                yield
            finally:
                self.writers.stopped.set()
                try:
                    for future in writing:
                        future.result()
                finally:
                    self._finish_reading()

    def remake(self) -> None:
        """The reborn topic is deleted and made anew; its reader stops before, and a new one starts after."""
        self.ledger.begin_delete(self.logs.pop(REBORN))
        self._reborn_gone.set()
        delete_until_gone(self.admin, REBORN, self.history)
        self._create(REBORN, REBORN_PARTITIONS)
        self._follow_reborn()

    def _start(self) -> list[Future[None]]:
        self._create(STEADY, STEADY_PARTITIONS)
        log, submit, writers, readers = self.logs[STEADY], self._executor.submit, self.writers, self.readers
        writing = [
            submit(writers.send_keyed, KEYED, STEADY),
            submit(writers.send_bulk, BULK, STEADY, STEADY_PARTITIONS),
            submit(writers.send_to_partitions, TO_PARTITIONS, STEADY, STEADY_PARTITIONS),
            submit(writers.send_async, ASYNC, STEADY),
            submit(partial(writers.send_keyed, **IMPATIENT_OPTIONS), IMPATIENT, STEADY),
        ]
        self._reading += [
            submit(readers.follow, "poll", STEADY, log, take_poll),
            submit(readers.follow, "poll_arrow", STEADY, log, take_arrow),
            submit(readers.read_ranges, self.seed, STEADY, log, STEADY_PARTITIONS),
        ]
        if self.spark_reads:
            self._reading.append(submit(readers.read_with_spark, STEADY, log, STEADY_PARTITIONS, self.spark_reads))
        if self.recreates:
            self._create(REBORN, REBORN_PARTITIONS)
            writing.append(submit(writers.send_keyed, KEYED_REBORN, REBORN))
            self._follow_reborn()
        return writing

    def _follow_reborn(self) -> None:
        self._reborn_gone = threading.Event()
        name = f"poll{self.logs[REBORN]}"
        follow = self.readers.follow
        self._reading.append(
            self._executor.submit(follow, name, REBORN, self.logs[REBORN], take_poll, self._reborn_gone)
        )

    def _create(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + ENDS_TIMEOUT_S
        while True:
            try:
                self.admin.create_topic(topic, partitions, replication_factor=NODES, config=TOPIC_CONFIG)
                break
            except TopicExistsError:
                break  # the answer to the first request was lost
            except PenstockError as error:
                self.history.write("refused", reader="admin", error=str(error)[:300])
                if time.monotonic() > deadline:
                    raise StuckError(f"topic {topic} cannot be made within {ENDS_TIMEOUT_S:g} s: {error}") from error
        self.partitions[topic] = partitions
        self.logs[topic] = self.ledger.created(topic)
        self.history.write("created", topic=topic, log=self.logs[topic])

    def _finish_reading(self) -> None:
        if self.readers.aborted.is_set():  # the cluster is stuck, which is an anomaly: nothing can be read any more
            for topic in self.topics():
                self.ledger.begin_delete(self.logs.pop(topic))
            self.partitions.clear()
            return
        self.readers.ends = {topic: self._log_ends(topic) for topic in self.logs}
        self.history.write("ends", ends=self.readers.ends)
        for future in self._reading:
            future.result()
        for topic, log in self.logs.items():
            self.readers.read_final(topic, log)

    def _log_ends(self, topic: str) -> dict[int, int]:
        """By partition, the offset after the last readable record."""
        partitions = [TopicPartition(topic, p) for p in range(self.partitions[topic])]
        with Consumer(self.bootstrap, request_timeout_ms=int(1000 * ENDS_TIMEOUT_S)) as consumer:
            return {tp.partition: end for tp, end in consumer.end_offsets(partitions).items()}


CAMPAIGN = Campaign("tests.chaos", __doc__, Options, play)
