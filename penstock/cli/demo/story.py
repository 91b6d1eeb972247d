"""The demo's story on a cluster of `penstock.testing`: nodes, topic, stream with two crashes, read back, Spark, report.

    text ─► stream ─► topic (3 replicas, acks=all) ─► read back ─┐
              ▲ kill -9: a leader, then the controller           ├─► report, exit code
                                 └─► Spark ─► Parquet ─► pyarrow ┘

A node is killed while records are on their way, and is in every ISR again before the next one is. The nodes die with
this process; the data and the table are in temporary directories.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from penstock import Admin, Producer
from penstock.cli.demo.reading import Table, read_topic, require_spark, write_table
from penstock.cli.demo.report import Crash, Report, print_report
from penstock.cli.demo.text import Sums, Text, find_text
from penstock.cli.output import Progress, note, progress
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.partitioner import partition_for_key
from penstock.errors import PenstockError, TopicExistsError
from penstock.testing import Cluster

TOPIC = "demo"
PROBE_TOPIC = "demo-after-the-controller"
PARTITIONS = 6
LEADER_AT, LEADER_BACK_AT, CONTROLLER_AT, CONTROLLER_BACK_AT = 0.20, 0.45, 0.55, 0.80
"""The parts of the text that are sent when a node is killed, and when it is started again."""
FAILOVER_S_MAX = 60.0
RETRY_MS = 20
"""How often the controller is asked again; short enough to measure a failover."""
BUFFER_BYTES = 8 * 1024 * 1024
"""Small: records that wait in memory are not yet sent when a node is killed."""
FLUSH_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.5
"""How often the nodes are checked for one that ended by itself, while the cluster is left running."""


class Stream:
    """Sends the text, one line a record, up to one part of the whole after the other.

    Between the parts the producer goes on with what waits in its buffer.
    """

    def __init__(self, producer: Producer, text: Text, bar: Progress) -> None:
        self._producer = producer
        self._text = text
        self._bar = bar
        self._sent_bytes = 0
        self._failure: BaseException | None = None
        self.sums = Sums()
        self._lines = self._read()
        self._next = next(self._lines, None)

    def _read(self) -> Iterator[tuple[bytes, bytes]]:
        for file in self._text.files:
            lines = file.lines()
            self.sums.add(file.key, lines)
            yield from ((file.key, line) for line in lines)
            self._bar.advance(file.size_bytes)

    def next_partition(self) -> int:
        """The partition that gets the next line."""
        return 0 if self._next is None else partition_for_key(self._next[0], PARTITIONS)

    def send_line(self) -> RecordFuture | None:
        """Sends the next line; None if no line is left."""
        if self._next is None:
            return None
        key, line = self._next
        future = self._producer.send(TOPIC, line, key)
        self._sent_bytes += len(line)
        self._next = next(self._lines, None)
        return future

    def send_to(self, fraction: float) -> None:
        """Sends lines until this fraction of the text is sent; raises the failure of an earlier part."""
        if self._failure is not None:
            raise self._failure
        last = None
        end_bytes = fraction * self._text.size_bytes
        while self._next is not None and self._sent_bytes < end_bytes:
            last = self.send_line()
        if last is not None:
            last.add_done_callback(self._on_done)

    def _on_done(self, future: RecordFuture) -> None:
        self._failure = self._failure or future.exception(0)

    def __repr__(self) -> str:
        return f"Stream({self._sent_bytes} of {self._text.size_bytes} bytes sent)"


def run_demo(path: Path | None, nodes: int, max_bytes: int, *, spark: bool, as_json: bool) -> int:
    """Returns the exit code: 0 only when every check holds."""
    if spark:
        require_spark()
    text = find_text(path, max_bytes)
    left_out = f"; {text.left_out_bytes:,} bytes left out, see --max-mb" if text.left_out_bytes else ""
    note(f"{len(text.files):,} files with {text.size_bytes:,} bytes from {text.root}{left_out}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as work, Cluster(nodes) as cluster:
        seconds = {"start": time.monotonic() - began}
        note(f"{nodes} nodes ready after {seconds['start']:.1f} s: {cluster.bootstrap}")
        cluster.topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": 2})
        note(f"topic {TOPIC}: {PARTITIONS} partitions, 3 replicas on {nodes} nodes, min.insync.replicas=2")
        report = _run(cluster, text, seconds, Path(work) if spark else None, quiet=as_json)
        print_report(report, as_json)
        if sys.stdout.isatty() and not as_json:
            _leave_running(cluster, Path(work) if spark else None)
    return 0 if report.ok else 1


def _run(cluster: Cluster, text: Text, seconds: dict[str, float], work: Path | None, *, quiet: bool) -> Report:
    """The stream with both crashes, and what was found of it afterwards."""
    began = time.monotonic()
    with (
        Producer(cluster.bootstrap, acks="all", buffer_memory=BUFFER_BYTES) as producer,
        progress("stream", text.size_bytes, quiet=quiet) as bar,
    ):
        stream = Stream(producer, text, bar)
        stream.send_to(LEADER_AT)
        leader = _kill_leader(cluster, stream)
        stream.send_to(CONTROLLER_AT)
        controller = _kill_controller(cluster, stream)
        stream.send_to(1.0)
        producer.flush(FLUSH_TIMEOUT_S)
        counts = producer.statistics()
    seconds["stream"] = time.monotonic() - began
    note(f"{counts.records_acked:,} records acked in {seconds['stream']:.1f} s, both crashes included")
    began = time.monotonic()
    with progress("read back", text.size_bytes, quiet=quiet) as bar:
        read = read_topic(cluster.bootstrap, TOPIC, bar)
    seconds["read_back"] = time.monotonic() - began
    note(f"read back {read.records:,} records in {seconds['read_back']:.1f} s")
    table = None if work is None else _to_parquet(cluster, work, read.size_bytes)
    return Report(text, len(cluster), stream.sums, counts, leader, controller, read, table, seconds)


def _kill_leader(cluster: Cluster, stream: Stream) -> Crash:
    """Kills the leader of the next line's partition. The failover ends with the ack of that line: it is sent after."""
    partition = stream.next_partition()
    victim = cluster.kill_leader(TOPIC, partition)
    killed_at = time.monotonic()
    note(f"kill -9 of node {victim}, leader of partition {partition}")
    acked_at: queue.SimpleQueue[float] = queue.SimpleQueue()
    line = stream.send_line()
    failover_ms = None
    if line is not None:
        line.add_done_callback(lambda _: acked_at.put(time.monotonic()))
        stream.send_to(LEADER_BACK_AT)
        line.result(FAILOVER_S_MAX)
        failover_ms = round(1000 * (acked_at.get(timeout=FAILOVER_S_MAX) - killed_at))
        note(f"partition {partition} acks again after {failover_ms} ms; starting node {victim} again")
    return Crash(victim, failover_ms, _bring_back(cluster, victim))


def _kill_controller(cluster: Cluster, stream: Stream) -> Crash:
    """Kills the active controller; the failover ends when the quorum commits the next change."""
    victim = cluster.controller()
    cluster.kill(victim)
    killed_at = time.monotonic()
    note(f"kill -9 of node {victim}, the active controller")
    with Admin(cluster.bootstrap, retry_backoff_ms=RETRY_MS, retry_backoff_max_ms=RETRY_MS) as admin:
        with contextlib.suppress(TopicExistsError):  # an earlier attempt was committed, but its answer was lost
            admin.create_topic(PROBE_TOPIC, partitions=1, replication_factor=2)
        failover_ms = round(1000 * (time.monotonic() - killed_at))
        note(f"a topic was created after {failover_ms} ms; starting node {victim} again")
        stream.send_to(CONTROLLER_BACK_AT)
        back_ms = _bring_back(cluster, victim)
        admin.delete_topic(PROBE_TOPIC)
    return Crash(victim, failover_ms, back_ms)


def _bring_back(cluster: Cluster, node: int) -> int:
    """Starts a node; returns the ms until it was in every ISR of the topic."""
    started_at = time.monotonic()
    cluster.start(node)
    cluster.wait_in_sync(TOPIC)
    back_ms = round(1000 * (time.monotonic() - started_at))
    note(f"node {node} is back in every ISR after {back_ms} ms")
    return back_ms


def _to_parquet(cluster: Cluster, work: Path, topic_bytes: int) -> Table:
    note("Spark: topic to Parquet")
    table = write_table(cluster.bootstrap, TOPIC, work, topic_bytes)
    note(
        f"{table.sums.records:,} rows in {table.files} Parquet files after {table.seconds:.1f} s, "
        f"of which {table.start_seconds:.1f} s to start Spark"
    )
    return table


def _leave_running(cluster: Cluster, work: Path | None) -> None:
    """Runs until Ctrl-C, after printing commands to try."""
    with contextlib.suppress(KeyboardInterrupt):  # before the commands are printed: the user may be quick
        for line in f"""
the cluster keeps running until Ctrl-C; in another terminal:
  export PENSTOCK_BOOTSTRAP={cluster.bootstrap}
  penstock topics describe {TOPIC}
  penstock consume {TOPIC} --from-beginning -n 5 --print-key
  penstock quorum describe
  kcat -b {cluster.kafka_bootstrap} -C -t {TOPIC} -o beginning -c 5     # or another client of Kafka
  kill -9 {cluster.pid(0)}     # node 0; produce and consume go on: penstock bench produce {TOPIC} -n 100000
  curl {cluster.metrics_url(1)}""".splitlines():
            note(line)
        if work is not None:
            note(f"  the Parquet table: {work}")
        pause = threading.Event()
        while any(cluster.is_running(index) for index in range(len(cluster))):
            pause.wait(LOOK_EVERY_S)
        raise PenstockError("every node has ended; run the demo again")
    note("stopping")
