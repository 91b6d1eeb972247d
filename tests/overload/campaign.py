"""One overload run: what can three nodes take, and what do they do with three times as much?

    a paced producer alone: the old p99 of an ack
    producer processes with acks=all, each with so many batches unacked at most: the rate that the cluster takes
    the same processes offer `times` that rate and wait for nothing: most of it is refused by the producers' own bounded
      buffers, or times out; every error is typed and counted
    nothing but the paced producer again: how soon are acks as quick as before?
    everything acked is read and judged by the ledger of the chaos runs; the nodes stop; replicas are compared

Wrong is: an election of the controller or of a partition's leader, a broker that was fenced, a process that ended, an
acked record that is not where its ack said, disorder or a duplicate, replicas that differ, a node above `memory_mib`,
less than `times` the rate that was taken, and acks that are slow `recover_s` after the overload.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import Admin, Consumer, TopicPartition
from penstock.testing import Cluster
from tests.chaos.ledger import Ledger, Verdict
from tests.growth.latency import PacedProducer
from tests.overload.sender import CHUNK_RECORDS, RECORD_BYTES, bare_value
from tests.overload.standing import OVERLOADED, SHRINKS, Standing, Watch
from tests.support import replica_bytes

NODES, PARTITIONS = 3, 6
LOAD, PACED = "load", "paced"
BASELINE_S, WARM_UP_S = 15.0, 5.0
RECOVERED_WINDOW_S = 5
SLOWER_MAX = 2.0
"""An ack's p99 may be so many times what it was, and count as the old one: a busy machine varies as much."""
OFFERED_MIN = 0.98
STUCK_S = 60.0
READ_BYTES = 16 * 1024 * 1024
RESULT_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Config:
    """`times` the rate that the cluster takes is offered for `seconds`, by `processes`."""

    times: float
    seconds: float
    measure_s: float
    processes: int
    request_timeout_ms: int
    memory_mib: int
    recover_s: int


@dataclass(slots=True)
class Outcome:
    """The result; `directory` is kept when it is not ok."""

    verdict: Verdict
    wrong: list[str]
    figures: dict[str, object]
    directory: Path

    @property
    def ok(self) -> bool:
        return not self.wrong

    def as_json(self) -> dict[str, object]:
        """One object for one line."""
        return {
            "ok": self.ok,
            **self.figures,
            "anomalies": dict(self.verdict.anomalies),
            "acked": self.verdict.acked,
            "read": self.verdict.read,
            "wrong": self.wrong,
            **({} if self.ok else {"kept": str(self.directory)}),
        }


def run(config: Config, directory: Path, say: Callable[[str], None]) -> Outcome:
    """From empty directories to compared replicas."""
    with Cluster(NODES, directory=directory / "cluster", defaults={}) as cluster:
        with Admin(cluster.bootstrap) as admin:
            for topic in (LOAD, PACED):
                admin.create_topic(topic, PARTITIONS, NODES, {"min.insync.replicas": 2})
            cluster.wait_in_sync()
            story = Story(config, cluster, admin, directory, say)
            story.tell()
        say("everything is read")
        verdict = _judged(cluster.bootstrap, directory, story.ended)
        cluster.stop_all()
        dirs = [[cluster.directory(node)] for node in range(NODES)]
        differences = [text for name in (LOAD, PACED) for text in replica_bytes.differences(dirs, name, PARTITIONS)]
    wrong = [*story.wrong, *verdict.examples, *(f"different replicas: {text}" for text in differences)]
    return Outcome(verdict, wrong, story.figures, directory)


@dataclass(slots=True)
class Story:
    """The story of one cluster; `ended` is what each producer says of itself in the end."""

    config: Config
    cluster: Cluster
    admin: Admin
    directory: Path
    say: Callable[[str], None]
    figures: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)

    def tell(self) -> None:
        """All of it."""
        with (
            self._senders() as senders,
            PacedProducer(self.cluster.bootstrap, PACED, PARTITIONS) as paced,
            Watch(self.cluster, self.admin) as watch,
        ):
            time.sleep(WARM_UP_S)
            before = Standing.of(self.cluster, self.admin)
            paced.phase("alone")
            time.sleep(BASELINE_S)
            paced.phase("measured")
            rate = self._measure(senders)
            self.say(f"the cluster takes {rate * CHUNK_RECORDS:,.0f} records/s of {RECORD_BYTES} bytes")
            paced.phase("settling")
            time.sleep(WARM_UP_S)
            paced.phase("overload")
            self._overload(senders, rate)
            self._recover(paced)
            after = Standing.of(self.cluster, self.admin)
            self.ended = _all(senders, {"do": "end"})[0]
        self.figures["acks"] = {name: found for name, found in paced.quantiles().items() if not name.isdigit()}
        self.figures["isr_shrinks"] = before.counted(after, SHRINKS)
        self.figures["isr_min"] = watch.isr_min
        self.figures["requests_refused"] = before.counted(after, OVERLOADED)
        self.figures["metadata_looks_failed"] = watch.unanswered
        self.figures["rss_mib_max"] = watch.rss_mib_max
        self.figures["batches_retried"] = sum(each["batches_retried"] for each in self.ended)
        self.wrong += before.changes(after)
        self.wrong += [f"the paced producer: {text}" for text in paced.failed[:5]]
        if max(watch.rss_mib_max) > self.config.memory_mib:
            self.wrong.append(f"memory of the nodes, MiB: {watch.rss_mib_max}, the limit is {self.config.memory_mib}")

    def _measure(self, senders: Sequence[subprocess.Popen[str]]) -> float:
        """Chunks a second of all processes together, of a cluster that is warm."""
        _all(senders, {"do": "closed", "seconds": WARM_UP_S})
        warm = self._acked(_all(senders, {"do": "closed", "seconds": 0})[0])
        began = time.monotonic()
        answers, _ = _all(senders, {"do": "closed", "seconds": self.config.measure_s})
        rate = (self._acked(answers) - warm) / (time.monotonic() - began)
        self.figures["taken_records_per_s"] = round(rate * CHUNK_RECORDS)
        self.figures["taken_p99_ms"] = max(each["p99_ms"] for each in answers)
        return rate

    def _overload(self, senders: Sequence[subprocess.Popen[str]], rate: float) -> None:
        each_rate = self.config.times * rate / len(senders)
        self.say(f"{self.config.times:g} times as much is offered for {self.config.seconds:g} s")
        _, cpu_before = _all(senders, {"do": "closed", "seconds": 0})
        began = time.monotonic()
        answers, cpu_s = _all(senders, {"do": "open", "seconds": self.config.seconds, "rate": each_rate})
        seconds = time.monotonic() - began
        offered, acked = sum(each["offered"] for each in answers), self._acked(answers)
        failed: Counter[str] = Counter()
        for each in answers:
            failed.update(each["failed"])
        self.figures["offered_records_per_s"] = round(offered * CHUNK_RECORDS / seconds)
        self.figures["acked_records_per_s"] = round(acked * CHUNK_RECORDS / seconds)
        self.figures["offered_by_taken"] = round(offered / seconds / rate, 2)
        self.figures["chunks_offered"], self.figures["chunks_acked"] = offered, acked
        self.figures["chunks_failed"] = dict(failed)
        self.figures["overload_p50_ms"] = max(each["p50_ms"] for each in answers)
        self.figures["overload_p99_ms"] = max(each["p99_ms"] for each in answers)
        self.figures["senders_cpu_share"] = round((cpu_s - cpu_before) / seconds, 2)
        if offered / seconds < OFFERED_MIN * self.config.times * rate:
            self.wrong.append(f"only {offered / seconds / rate:.2f} times the rate that was taken was offered")

    def _recover(self, paced: PacedProducer) -> None:
        """Each second is a phase of its own, so that the first good window is found afterwards."""
        self.say("nothing more is offered")
        seconds = [str(n) for n in range(self.config.recover_s + RECOVERED_WINDOW_S)]
        for name in seconds:
            paced.phase(name)
            time.sleep(1)
        paced.phase("after")
        time.sleep(BASELINE_S)
        old = paced.p99_ms(["alone"])
        after = (
            n
            for n in range(self.config.recover_s + 1)
            if paced.p99_ms(seconds[n : n + RECOVERED_WINDOW_S]) <= SLOWER_MAX * old
        )
        self.figures["recovered_after_s"] = found = next(after, None)
        if found is None:
            self.wrong.append(f"{self.config.recover_s} s after the overload, p99 is not what it was: {old:.1f} ms")

    @staticmethod
    def _acked(answers: Sequence[dict[str, Any]]) -> int:
        return sum(each["acked"] for each in answers)

    @contextmanager
    def _senders(self) -> Iterator[list[subprocess.Popen[str]]]:
        """The processes, each of which has both of its producers; they end with their stdin."""
        command = [sys.executable, "-m", "tests.overload.sender", self.cluster.bootstrap, LOAD]
        senders = [
            subprocess.Popen(
                [*command, str(number), str(self.directory / f"acked-{number}"), str(self.config.request_timeout_ms)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(self.config.processes)
        ]
        try:
            for sender in senders:
                _answer(sender)
            yield senders
        finally:
            for sender in senders:
                sender.communicate()


def _all(senders: Sequence[subprocess.Popen[str]], order: dict[str, object]) -> tuple[list[dict[str, Any]], float]:
    """The answers of the producers of all processes to one order, which they obey at the same time; and the seconds of
    processor time that all processes have taken until then."""
    for sender in senders:
        assert sender.stdin is not None
        sender.stdin.write(json.dumps(order) + "\n")
        sender.stdin.flush()
    answers = [_answer(sender) for sender in senders]
    return [each for answer in answers for each in answer["producers"]], sum(answer["cpu_s"] for answer in answers)


def _answer(sender: subprocess.Popen[str]) -> Any:
    assert sender.stdout is not None
    line = sender.stdout.readline()
    if not line:
        raise RuntimeError(f"a sender ended with {sender.wait()}")
    return json.loads(line)


def _judged(bootstrap: str, directory: Path, ended: Sequence[dict[str, Any]]) -> Verdict:
    """Compares what was acked with what a new consumer reads."""
    ledger = Ledger()
    log = ledger.created(LOAD)
    for each in ended:
        ledger.is_idempotent(each["producer"], LOAD)
        ledger.send(each["producer"], LOAD, each["sent_records"])
    for path in directory.glob("acked-*"):
        acked = array("q")
        acked.frombytes(path.read_bytes())
        for at in range(0, len(acked), RESULT_FIELDS):
            producer, first, count, partition, offset = acked[at : at + RESULT_FIELDS]
            ledger.ack(producer, first, partition, offset, count)
    with Consumer(bootstrap, auto_offset_reset="none", fetch_max_bytes=READ_BYTES) as consumer:
        tps = [TopicPartition(LOAD, p) for p in range(PARTITIONS)]
        ends = consumer.end_offsets(tps)
        consumer.assign(tps)
        for tp in tps:
            ledger.begin_range("final", log, tp.partition, 0)
            consumer.seek(tp, 0)
        moved_at = time.monotonic()
        while any(consumer.position(tp) < ends[tp] for tp in tps) and time.monotonic() - moved_at < STUCK_S:
            for batch in consumer.poll_arrow(timeout_ms=1_000).to_batches():
                if batch.num_rows:
                    moved_at = time.monotonic()
                    values = [bare_value(value) for value in batch["value"].to_pylist()]
                    ledger.read_final(log, batch["partition"][0].as_py(), batch["offset"].to_pylist(), values)
        for tp in tps:
            ledger.end_range("final", log, tp.partition, ends[tp], reached=consumer.position(tp) >= ends[tp])
    return ledger.judge({each["producer"]: each["possible_duplicates"] for each in ended})
