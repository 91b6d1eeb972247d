"""Three nodes are offered three times the records that they can take: python -m tests.overload.

    a paced producer alone: the old p99 of an ack
    producer processes with acks=all, each with so many batches unacked at most: the rate that the cluster takes
    the same processes offer `times` that rate and wait for nothing: most of it is refused by the producers' own bounded
      buffers, or times out; every error is typed and counted
    nothing but the paced producer again: how soon are acks as quick as before?
    everything acked is read and judged by the ledger of the chaos runs; the nodes stop; replicas are compared

Wrong is: an election of the controller or of a partition's leader, a broker that was fenced, a process that ended, an
acked record that is not where its ack said, disorder or a duplicate, replicas that differ, a node above `memory_mib`,
less than `times` the rate that was taken, and acks that are slow `recover` seconds after the overload.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import Admin
from penstock.testing import Cluster
from tests.chaos.ledger import Ledger, Verdict
from tests.growth.latency import PacedProducer
from tests.overload.cluster_state import OVERLOADED, SHRINKS, WATCH_S, ClusterState, Watch
from tests.overload.sender import CHUNK_RECORDS, RECORD_BYTES, bare_value
from tests.support import replica_bytes
from tests.support.campaign.beside import beside, every
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.campaign.reading import places_of, tables_of

NODES, PARTITIONS = 3, 6
LOAD, PACED = "load", "paced"
BASELINE_S, WARM_UP_S = 15.0, 5.0
RECOVERED_WINDOW_S = 5
SLOWER_MAX = 2.0
"""An ack's p99 may be so many times what it was, and count as the old one: a busy machine varies as much."""
OFFERED_MIN = 0.98
RESULT_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Options:
    times: float = option(3.0, "of the rate that the cluster takes")
    seconds: float = option(60.0, "of overload")
    measure: float = option(15.0, "seconds in which the rate is measured")
    processes: int = option(3, "that send")
    request_timeout_ms: int = option(5_000, "of the producers that overload")
    memory_mib: int = option(256, "that a node may take at most")
    recover: int = option(15, "seconds until acks must be as quick as before")


def play(run: Run[Options]) -> None:
    """From empty directories to compared replicas."""
    cluster = run.cluster(NODES, defaults={})
    with Admin(cluster.bootstrap) as admin:
        for topic in (LOAD, PACED):
            admin.create_topic(topic, PARTITIONS, NODES, {"min.insync.replicas": 2})
        cluster.wait_in_sync()
        story = Story(run, cluster, admin)
        story.tell()
    run.say("everything is read")
    verdict = _judged(cluster.bootstrap, run.directory, story.ended)
    run.report.take(verdict.anomalies, verdict.examples)
    run.report.figures |= {"acked": verdict.acked, "read": verdict.read}
    cluster.stop_all()
    dirs = [[cluster.directory(node)] for node in range(NODES)]
    for topic in (LOAD, PACED):
        run.report.all_wrong("different-replicas", replica_bytes.differences(dirs, topic, PARTITIONS))


@dataclass(slots=True)
class Story:
    """The story of one cluster; `ended` is what each producer says of itself in the end."""

    run: Run[Options]
    cluster: Cluster
    admin: Admin
    ended: list[dict[str, Any]] = field(default_factory=list)

    def tell(self) -> None:
        """All of it."""
        watch = Watch(self.cluster, self.admin)
        with (
            self._senders() as senders,
            PacedProducer(self.cluster.bootstrap, PACED, PARTITIONS) as paced,
            beside(every(WATCH_S, watch.look)),
        ):
            time.sleep(WARM_UP_S)
            before = ClusterState.of(self.cluster, self.admin)
            paced.phase("alone")
            time.sleep(BASELINE_S)
            paced.phase("measured")
            rate = self._measure(senders)
            self.run.say(f"the cluster takes {rate * CHUNK_RECORDS:,.0f} records/s of {RECORD_BYTES} bytes")
            paced.phase("settling")
            time.sleep(WARM_UP_S)
            paced.phase("overload")
            self._overload(senders, rate)
            self._recover(paced)
            after = ClusterState.of(self.cluster, self.admin)
            self.ended = _all(senders, {"do": "end"})[0]
        self.run.report.figures["acks"] = {
            name: found for name, found in paced.quantiles().items() if not name.isdigit()
        }
        self.run.report.figures["isr_shrinks"] = before.counted(after, SHRINKS)
        self.run.report.figures["isr_min"] = watch.isr_min
        self.run.report.figures["requests_refused"] = before.counted(after, OVERLOADED)
        self.run.report.figures["metadata_looks_failed"] = watch.unanswered
        self.run.report.figures["rss_mib_max"] = watch.rss_mib_max
        self.run.report.figures["batches_retried"] = sum(each["batches_retried"] for each in self.ended)
        self.run.report.all_wrong("unsteady", before.changes(after))
        self.run.report.all_wrong("paced-producer", paced.failed)
        if max(watch.rss_mib_max) > self.run.options.memory_mib:
            self.run.report.wrong(
                "memory", f"of the nodes, MiB: {watch.rss_mib_max}, the limit is {self.run.options.memory_mib}"
            )

    def _measure(self, senders: Sequence[subprocess.Popen[str]]) -> float:
        """Chunks a second of all processes together, of a cluster that is warm."""
        _all(senders, {"do": "closed", "seconds": WARM_UP_S})
        warm = self._acked(_all(senders, {"do": "closed", "seconds": 0})[0])
        began = time.monotonic()
        answers, _ = _all(senders, {"do": "closed", "seconds": self.run.options.measure})
        rate = (self._acked(answers) - warm) / (time.monotonic() - began)
        self.run.report.figures["taken_records_per_s"] = round(rate * CHUNK_RECORDS)
        self.run.report.figures["taken_p99_ms"] = max(each["p99_ms"] for each in answers)
        return rate

    def _overload(self, senders: Sequence[subprocess.Popen[str]], rate: float) -> None:
        each_rate = self.run.options.times * rate / len(senders)
        self.run.say(f"{self.run.options.times:g} times as much is offered for {self.run.options.seconds:g} s")
        _, cpu_before = _all(senders, {"do": "closed", "seconds": 0})
        began = time.monotonic()
        answers, cpu_s = _all(senders, {"do": "open", "seconds": self.run.options.seconds, "rate": each_rate})
        seconds = time.monotonic() - began
        offered, acked = sum(each["offered"] for each in answers), self._acked(answers)
        failed: Counter[str] = Counter()
        for each in answers:
            failed.update(each["failed"])
        self.run.report.figures["offered_records_per_s"] = round(offered * CHUNK_RECORDS / seconds)
        self.run.report.figures["acked_records_per_s"] = round(acked * CHUNK_RECORDS / seconds)
        self.run.report.figures["offered_by_taken"] = round(offered / seconds / rate, 2)
        self.run.report.figures["chunks_offered"], self.run.report.figures["chunks_acked"] = offered, acked
        self.run.report.figures["chunks_failed"] = dict(failed)
        self.run.report.figures["overload_p50_ms"] = max(each["p50_ms"] for each in answers)
        self.run.report.figures["overload_p99_ms"] = max(each["p99_ms"] for each in answers)
        self.run.report.figures["senders_cpu_share"] = round((cpu_s - cpu_before) / seconds, 2)
        if offered / seconds < OFFERED_MIN * self.run.options.times * rate:
            self.run.report.wrong(
                "offered", f"only {offered / seconds / rate:.2f} times the rate that was taken was offered"
            )

    def _recover(self, paced: PacedProducer) -> None:
        """Each second is a phase of its own, so that the first good window is found afterwards."""
        self.run.say("nothing more is offered")
        seconds = [str(n) for n in range(self.run.options.recover + RECOVERED_WINDOW_S)]
        for name in seconds:
            paced.phase(name)
            time.sleep(1)
        paced.phase("after")
        time.sleep(BASELINE_S)
        old = paced.p99_ms(["alone"])
        after = (
            n
            for n in range(self.run.options.recover + 1)
            if paced.p99_ms(seconds[n : n + RECOVERED_WINDOW_S]) <= SLOWER_MAX * old
        )
        self.run.report.figures["recovered_after_s"] = found = next(after, None)
        if found is None:
            self.run.report.wrong(
                "slow", f"{self.run.options.recover} s after the overload, p99 is not what it was: {old:.1f} ms"
            )

    @staticmethod
    def _acked(answers: Sequence[dict[str, Any]]) -> int:
        return sum(each["acked"] for each in answers)

    @contextmanager
    def _senders(self) -> Iterator[list[subprocess.Popen[str]]]:
        """The processes, each of which has both of its producers; they end with their stdin."""
        command = [sys.executable, "-m", "tests.overload.sender", self.cluster.bootstrap, LOAD]
        senders = [
            subprocess.Popen(
                [
                    *command,
                    str(number),
                    str(self.run.directory / f"acked-{number}"),
                    str(self.run.options.request_timeout_ms),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(self.run.options.processes)
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
    for partition in range(PARTITIONS):
        ledger.begin_range("final", log, partition, 0)
    for table in tables_of(bootstrap, places_of(LOAD, PARTITIONS)):
        for batch in table.to_batches():
            if batch.num_rows:
                values = [bare_value(value) for value in batch["value"].to_pylist()]
                ledger.read_final(log, batch["partition"][0].as_py(), batch["offset"].to_pylist(), values)
    return ledger.judge({each["producer"]: each["possible_duplicates"] for each in ended})


CAMPAIGN = Campaign("tests.overload", __doc__, Options, play)
