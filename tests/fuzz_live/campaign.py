"""Hostile clients against a live cluster: python -m tests.fuzz_live --minutes 20 --seed 1 [--only ATTACK …].

Every RPC of every service goes to every listener of three nodes: hostile fields, damaged bytes, streams in any order
and ending, floods; and the attacks of attacks.py. With `--door kafka` it is every API of Kafka's protocol in every
version, and the attacks of kafka/attacks.py. Loopback only; every attack is bounded in count and time.

An honest client is alone for a while, then beside attackers: its throughput without attacks is the measure of its
throughput with them. Broken promises: an answer of UNKNOWN or INTERNAL, an accepted forgery, a node that ended or
logged a traceback, a quorum that decides nothing more, throughput below 80 % of the baseline, an ack that took more
than 2 s, a record lost or skipped, a node's memory above its budget; and what a node still holds of the attackers when
they have gone (leftovers.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from penstock import Admin, Producer
from penstock.errors import PenstockError
from penstock.testing import Cluster, NodeFailedError
from penstock.testing.layout import Layout, stored_layout
from tests.fuzz_live.doors import DOORS, Answers, Door, Target
from tests.fuzz_live.honest_clients import PARTITIONS
from tests.fuzz_live.hostile import BULK_PARTITIONS, BULK_TOPIC, HONEST_TOPIC, TOPICS, Known
from tests.fuzz_live.leftovers import Leftovers
from tests.support.campaign.beside import beside, every
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.measures import rss_mib
from tests.support.campaign.options import option

NODES = 3
THROUGHPUT_MIN = 0.8
MEMORY_MIB = 768
"""The budgets of requests, answers and fetch sessions (configuration.md) are 640; a node at rest has about 80."""
ACK_S_MAX = 2.0
WARM_UP_S = 3.0
SAMPLE_S = 0.25
ATTACK_TIMEOUT_S = 90.0
END_TIMEOUT_S = 300.0
LEARN_TIMEOUT_MS, PROBE_TIMEOUT_MS = 5_000, 15_000
PROBE_TOPIC = "probe"
RESTARTS_MAX = 10
BULK_RECORDS, BULK_RECORD_BYTES = 60, 700_000
TRACEBACK_CHARS = 3_000
CLUSTER_CONFIG: dict[str, object] = {
    "log.retention.check.interval.ms": 10_000,
    "log.segment.delete.delay.ms": 0,
}
FUZZ_TOPIC_CONFIG = {"retention.bytes": 16 << 20, "segment.bytes": 4 << 20}
"""The limits by which attackers' records do not fill the disk."""


@dataclass(frozen=True, slots=True)
class Options:
    """Attacks by name, those of the door if there are none."""

    seed: int = 1
    door: str = option("grpc", "the listeners that are attacked", choices=list(DOORS))
    minutes: float = option(1.0, "of attacks")
    first: int = option(0, "begin with the attack of this number", metavar="N")
    baseline_seconds: float = option(60.0, "of the honest client alone")
    memory_mib: int = option(MEMORY_MIB, "that a node may have resident")
    only: tuple[str, ...] = option((), "these attacks and no others", metavar="ATTACK")
    skip: tuple[str, ...] = option((), "not these", metavar="ATTACK")

    def __post_init__(self) -> None:
        known = DOORS[self.door].attacks
        if unknown := {*self.only, *self.skip} - known.keys():
            raise ValueError(f"no attack on this door: {', '.join(sorted(unknown))}; there are {', '.join(known)}")

    @property
    def attacks(self) -> list[str]:
        return [name for name in self.only or DOORS[self.door].attacks if name not in self.skip]


@dataclass(slots=True)
class Watch:
    """The broken promises that are noticed while attacks run; from several threads. `now` names the attack that is
    under way."""

    run: Run[Options]
    now: str = "baseline"

    def report(self, kind: str, text: str) -> None:
        """A promise was broken."""
        self.run.report.wrong(kind, f"[{self.now}] {text}")
        self.run.say(f"BROKEN: {kind}: [{self.now}] {text:.200}")


class HonestProcess:
    """The honest client, and the lines that it has written: (time, attack under way, line)."""

    def __init__(self, door: str, bootstrap: str, watch: Watch) -> None:
        self._watch = watch
        self.lines: list[tuple[float, str, dict[str, float]]] = []
        self.verdict: dict[str, object] = {}
        command = [sys.executable, "-m", "tests.fuzz_live.honest", door, bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self) -> None:
        """Waits until it has read everything again."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._thread.join(END_TIMEOUT_S)
        self._process.kill()
        self._process.wait()
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def per_second(self, begin: float, end: float) -> float:
        """Acks a second in a span of time."""
        within = [line for at, _, line in self.lines if begin <= at <= end]
        return (within[-1]["acked"] - within[0]["acked"]) / max(len(within) - 1, 1) if within else 0.0

    def _read(self) -> None:
        for text in self._process.stdout or ():
            line = json.loads(text)
            if "verdict" in line:
                self.verdict = line["verdict"]
                continue
            self.lines.append((time.monotonic(), self._watch.now, line))
            if self._watch.now != "baseline" and line["worst_ack_s"] > ACK_S_MAX:
                self._watch.report("slow ack", f"{line['worst_ack_s']:.1f} s")


class Memory:
    """The largest resident size of each node, in MiB."""

    def __init__(self, cluster: Cluster, watch: Watch, limit_mib: int) -> None:
        self._cluster, self._watch, self._limit_mib = cluster, watch, limit_mib
        self.peaks = [0] * NODES

    def look(self) -> None:
        for node in range(NODES):
            with contextlib.suppress(NodeFailedError):
                size = rss_mib(self._cluster.pid(node))
                if size > max(self.peaks[node], self._limit_mib):
                    self._watch.report("memory", f"node {node}: {size} MiB of {self._limit_mib}")
                self.peaks[node] = max(self.peaks[node], size)


def play(run: Run[Options]) -> None:
    options, watch, door = run.options, Watch(run), DOORS[run.options.door]
    answers = door.answers(watch.report)
    cluster = run.cluster(NODES, CLUSTER_CONFIG)
    _prepare(cluster.bootstrap)
    layout = stored_layout(run.directory / "cluster", NODES, None)
    if layout is None:
        raise RuntimeError("the cluster has no layout")
    honest, memory = HonestProcess(door.name, door.bootstrap(layout), watch), Memory(cluster, watch, options.memory_mib)
    run.enter(contextlib.closing(honest))
    with beside(every(SAMPLE_S, memory.look)):
        time.sleep(WARM_UP_S)
        run.say(f"the honest client alone, for {options.baseline_seconds:g} s")
        began = time.monotonic()
        time.sleep(options.baseline_seconds)
        baseline = honest.per_second(began, time.monotonic())
        leftovers = Leftovers(cluster, NODES)
        began = time.monotonic()
        asyncio.run(_attack_all(run, door, cluster, layout, watch, answers))
        watch.now = "end"
        beside_attackers = honest.per_second(began, time.monotonic())
        for text in leftovers.found():
            watch.report("leftovers", text)
        honest.close()
    _judge_honest(watch, honest, baseline, beside_attackers)
    run.report.figures |= {
        "honest_per_s_alone": round(baseline, 1),
        "honest_per_s_beside": round(beside_attackers, 1),
        "worst_ack_s": round(max((line["worst_ack_s"] for at, _, line in honest.lines if at >= began), default=0.0), 2),
        "memory_mib": memory.peaks,
        "honest": honest.verdict,
        "statuses": dict(answers.statuses),
        "error_codes": {str(code): count for code, count in sorted(answers.codes.items())},
    }


def _prepare(bootstrap: str) -> None:
    with Admin(bootstrap) as admin, Producer(bootstrap, batch_size=1_000_000) as producer:
        admin.create_topic(HONEST_TOPIC, PARTITIONS, NODES, {"min.insync.replicas": 2})
        admin.create_topic(BULK_TOPIC, BULK_PARTITIONS, NODES)
        for topic in TOPICS:
            admin.create_topic(topic, 3, NODES, FUZZ_TOPIC_CONFIG)
        for n in range(BULK_RECORDS):
            producer.send(BULK_TOPIC, Random(n).randbytes(BULK_RECORD_BYTES), partition=n % BULK_PARTITIONS)


async def _attack_all(
    run: Run[Options], door: Door, cluster: Cluster, layout: Layout, watch: Watch, answers: Answers
) -> None:
    options, deadline = run.options, time.monotonic() + 60 * run.options.minutes
    restarts, names = 0, options.attacks
    drawn = enumerate(draw_attacks(Random(options.seed), names))
    logs = [LogWatch(cluster.log_path(node)) for node in range(NODES)]
    for number, name in islice(drawn, options.first, None):
        if time.monotonic() > deadline or restarts > RESTARTS_MAX:
            return
        watch.now = f"{number}. {name}"
        run.faults[name] += 1
        source = Random(options.seed * 1_000_003 + number)
        pids = [cluster.pid(node) for node in range(NODES)]
        stage = await door.stage(Target(layout, pids, _learn(cluster)), answers, source)
        began = time.monotonic()
        try:
            await asyncio.wait_for(door.attacks[name](stage), ATTACK_TIMEOUT_S)
        except TimeoutError:
            run.say(f"{name} was given up after {ATTACK_TIMEOUT_S:g} s")
        finally:
            await stage.close()
        run.say(f"{number}. {name}: {time.monotonic() - began:.1f} s")
        for node, log in enumerate(logs):
            for text in log.tracebacks():
                watch.report("traceback", f"node {node}: {text}")
        restarts += _restart_ended(cluster, watch)
        if name != names[0]:  # it comes too often
            _probe(cluster, watch)


def draw_attacks(source: Random, names: Sequence[str]) -> Iterator[str]:
    """Endless: each once in a drawn order, then the first of them half of the time."""
    order = list(names)
    source.shuffle(order)
    yield from order
    while True:
        yield names[0] if source.random() < 0.5 else source.choice(list(names))


class LogWatch:
    """The lines that a node has logged since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size

    def tracebacks(self) -> list[str]:
        """The lines around each."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            text = file.read().decode(errors="replace")
            self._at = file.tell()
        return [part[:TRACEBACK_CHARS] for part in text.split("Traceback (most recent call last)")[1:]]


def _learn(cluster: Cluster) -> Known:
    """Asks what anybody may ask; a topic that an attacker deleted is made again. What does not answer is learnt
    later."""
    ids: dict[str, str] = {}
    with Admin(cluster.bootstrap, default_api_timeout_ms=LEARN_TIMEOUT_MS) as admin:
        for topic in (HONEST_TOPIC, BULK_TOPIC, *TOPICS):
            with contextlib.suppress(PenstockError):
                ids[topic] = admin.describe_topic(topic).topic_id
        for topic in TOPICS:
            if topic not in ids:
                with contextlib.suppress(PenstockError):
                    ids[topic] = admin.create_topic(topic, 3, NODES, FUZZ_TOPIC_CONFIG).topic_id
    return Known(cluster.cluster_id, ids)


def _probe(cluster: Cluster, watch: Watch) -> None:
    """The quorum decides and every node follows: a topic is made and deleted."""
    try:
        with Admin(cluster.bootstrap, default_api_timeout_ms=PROBE_TIMEOUT_MS) as admin:
            if PROBE_TOPIC not in admin.list_topics():
                admin.create_topic(PROBE_TOPIC, 1, NODES)
            admin.delete_topic(PROBE_TOPIC)
    except PenstockError as error:
        watch.report("control plane", f"a topic cannot be made and deleted: {type(error).__name__}: {error!s:.300}")


def _restart_ended(cluster: Cluster, watch: Watch) -> int:
    """Reports nodes that ended, and starts them, so that the run goes on."""
    ended = [node for node in range(NODES) if not cluster.is_running(node)]
    for node in ended:
        tail = cluster.log_path(node).read_text(errors="replace").splitlines()[-3:]
        watch.report("node ended", f"node {node}: {tail}")
        cluster.start(node, wait=False)
    if ended:
        cluster.wait_ready()
    return len(ended)


def _judge_honest(watch: Watch, honest: HonestProcess, baseline: float, beside: float) -> None:
    if not honest.verdict:
        watch.report("honest client", f"it has not ended within {END_TIMEOUT_S:g} s")
    for kind, count in dict(honest.verdict.get("anomalies", {})).items():  # type: ignore[call-overload]
        watch.report(str(kind), f"{count}: {honest.verdict.get('examples')!s:.600}")
    if beside < THROUGHPUT_MIN * baseline:
        watch.report("throughput", f"{beside:.0f} acks a second beside attackers, {baseline:.0f} alone")
    slow = Counter(now for _, now, line in honest.lines if line["worst_ack_s"] > ACK_S_MAX)
    watch.run.say(f"seconds with an ack above {ACK_S_MAX:g} s, by attack: {dict(slow)}")


CAMPAIGN = Campaign("tests.fuzz_live", __doc__, Options, play)
