"""Performs the faults of a plan on a running cluster, and notices a node that ended unasked or started wrongly.

One fault at a time, by one thread. A node that was told to stop is started again before the next fault; whether every
ISR must be whole by then is the fault's own word. Which faults come is faults.py's.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from penstock import Admin, TopicPartition
from penstock.errors import PenstockError, UnknownTopicOrPartitionError
from penstock.node import node_command
from penstock.testing import Cluster
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties
from tests.chaos.faults import NODES, Fault, Kind
from tests.chaos.history import History
from tests.chaos.hung_disks import SETTLE_S, HungDisks
from tests.chaos.ledger import Ledger
from tests.chaos.producer_counts import ProducerCounts
from tests.support.power_disk import PowerDisk
from tests.support.small_disk import fill

WHOLE_TIMEOUT_S = 120.0
START_TIMEOUT_S = 60.0
REFUSED_TIMEOUT_S = 30.0
FLICKER_S_MAX = 1.5
"""After a power cut, before the second one: a node needs about a second to start."""
RETRY_S = 0.1
ASIDE = "-aside"


class StuckError(Exception):
    """The cluster did not come back in time."""


@dataclass(slots=True)
class Operator:
    """`log_dirs[i]` are those of node i, `disks[i]` their disks if power can be cut; `remake` deletes a topic and makes
    it anew with what the clients need."""

    cluster: Cluster
    admin: Admin
    ledger: Ledger
    history: History
    log_dirs: Sequence[Sequence[Path]]
    remake: Callable[[], None]
    topics: Callable[[], Sequence[str]]
    hung_disks: HungDisks
    full_disk: Path | None = None
    disks: Sequence[Sequence[PowerDisk]] = ()
    counts: ProducerCounts = field(default_factory=ProducerCounts)
    down: set[int] = field(default_factory=set)
    _pause: threading.Event = field(default_factory=threading.Event)

    def play(self, fault: Fault) -> None:
        """One fault, until its nodes are started again."""
        self._pause.wait(fault.calm_s)
        self.history.write("fault", kind=fault.kind, nodes=fault.nodes, text=str(fault))
        perform = {
            Kind.KILL: self._end,
            Kind.STOP: self._end,
            Kind.POWER_CUT: self._cut_power,
            Kind.HANG: self._hang,
            Kind.HANG_DISK: self._hang_disk,
            Kind.WIPE: self._wipe,
            Kind.WIPE_LAST: self._wipe_last,
            Kind.SWAP: self._swap,
            Kind.FULL: self._fill,
            Kind.RECREATE: self._recreate,
        }[fault.kind]
        perform(fault)
        if fault.patient:
            self.wait_whole()
        self.check_running()
        self.history.write("fault over", kind=fault.kind)

    def wait_whole(self) -> None:
        """Until every replica is in its ISR."""
        deadline = time.monotonic() + WHOLE_TIMEOUT_S
        while True:
            short = self._short()
            if not short:
                return
            self.check_running()
            if time.monotonic() > deadline:
                raise StuckError(f"after {WHOLE_TIMEOUT_S:g} s these ISRs are not whole: {short}")
            self._pause.wait(RETRY_S)

    def check_running(self) -> None:
        """A node that nobody stopped has not ended."""
        for index in set(range(NODES)) - self.down:
            if not self.cluster.is_running(index):
                tail = self.cluster.log_path(index).read_text(errors="replace").splitlines()[-3:]
                self.ledger.report("node-ended", f"node {index} ended by itself: {tail}")
                self._start([index])

    # -- faults --------------------------------------------------------------------------------------------------------

    def _end(self, fault: Fault) -> None:
        for node in fault.nodes:
            self._stop(node, by_kill=fault.kind is Kind.KILL)
        self._pause.wait(fault.lasts_s)
        self._start(fault.nodes)

    def _cut_power(self, fault: Fault) -> None:
        self._lose_power(fault.nodes)
        self._pause.wait(fault.lasts_s)
        if fault.by_kill:
            self._start(fault.nodes, wait=False)
            self._pause.wait(min(fault.lasts_s, FLICKER_S_MAX))
            self._lose_power(fault.nodes)
        self._start(fault.nodes)

    def _lose_power(self, nodes: Sequence[int]) -> None:
        """Nothing leaves a node once its disks stand, and it has no time to notice."""
        self.check_running()
        for node in nodes:
            self.counts.take(self.cluster.metrics_url(node))
            self.cluster.pause(node)
        for node in nodes:
            for disk in self.disks[node]:
                disk.cut()
        for node in nodes:
            self.down.add(node)
            self.cluster.kill(node)
            for disk in self.disks[node]:
                disk.restore()

    def _hang(self, fault: Fault) -> None:
        for node in fault.nodes:
            self.cluster.pause(node)
        self._pause.wait(fault.lasts_s)
        for node in fault.nodes:
            self.cluster.resume(node)

    def _hang_disk(self, fault: Fault) -> None:
        """Hangs a log dir; records for other log dirs are acked meanwhile. A dir that failed is taken into use by the
        next start."""
        self.wait_whole()
        (node,) = fault.nodes
        directory = self.log_dirs[node][fault.log_dir]
        with self.hung_disks.hanging(node, directory, self._partitions()):
            self._pause.wait(fault.lasts_s)
        self._pause.wait(SETTLE_S)
        if self.hung_disks.has_failed(node, directory):
            self.history.write("log dir failed", node=node, log_dir=fault.log_dir)
            self._stop(node, by_kill=fault.by_kill, lacks_dir=True)
            self._start([node])

    def _partitions(self) -> list[TopicPartition]:
        found = {name: self.admin.describe_topic(name).partitions for name in self.topics()}
        return [TopicPartition(name, p.partition) for name, partitions in found.items() for p in partitions]

    def _wipe(self, fault: Fault) -> None:
        """A new disk: refused until it is formatted, and then until the operator gives the old one up."""
        self.wait_whole()
        (node,) = fault.nodes
        self._stop(node, by_kill=fault.by_kill)
        lost = self._replace_dir(node, fault.log_dir)
        self._must_refuse(node, f"a new and empty d{fault.log_dir}")
        self._pause.wait(fault.lasts_s)
        self._start([node], "--lost-log-dirs", lost)
        self.wait_whole()

    def _wipe_last(self, fault: Fault) -> None:
        """The last one to stop is alone in every ISR: it must not lead with a new disk, and does with its old one."""
        self.wait_whole()
        *others, last = fault.nodes
        for node in others:
            self._stop(node, by_kill=False)  # in order: two of three voters cannot shrink an ISR any more
        self._stop(last, by_kill=fault.by_kill)
        directory = self.log_dirs[last][fault.log_dir]
        aside = directory.with_name(directory.name + ASIDE)
        shutil.copytree(directory, aside)
        self._replace_dir(last, fault.log_dir)
        self._start(others, wait=False)
        self._must_refuse(last, f"a new and empty d{fault.log_dir}, the last in-sync replica of its partitions")
        shutil.rmtree(directory)
        aside.rename(directory)
        self._sync_disks()
        self._start([last])
        self.wait_whole()

    def _swap(self, fault: Fault) -> None:
        self.wait_whole()
        one, two = (self.log_dirs[node][fault.log_dir] for node in fault.nodes)
        for node in fault.nodes:
            self._stop(node, by_kill=fault.by_kill)
        _exchange(one, two)
        for node in fault.nodes:
            self._must_refuse(node, f"another node's d{fault.log_dir}")
        _exchange(one, two)
        self._sync_disks()
        self._start(fault.nodes)

    def _fill(self, fault: Fault) -> None:
        if self.full_disk is None:
            return
        ballast = self.full_disk / "ballast"
        fill(ballast)
        try:
            self._pause.wait(fault.lasts_s)
        finally:
            ballast.unlink()

    def _recreate(self, fault: Fault) -> None:
        """A node that hangs or dies meanwhile has the deletion in its queue, or takes its answer along.

        The new topic needs all nodes, so they come back while it is being made.
        """
        for node in fault.nodes:
            self._stop(node, by_kill=True) if fault.by_kill else self.cluster.pause(node)
        comeback = threading.Timer(fault.lasts_s if fault.nodes else 0, self._bring_back, [fault])
        comeback.start()
        try:
            self.remake()
        finally:
            comeback.join()

    def _bring_back(self, fault: Fault) -> None:
        if fault.by_kill:
            self._start(fault.nodes)
            return
        for node in fault.nodes:
            self.cluster.resume(node)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _stop(self, node: int, *, by_kill: bool, lacks_dir: bool = False) -> None:
        """A node that `lacks_dir`, because one has failed, ends in order and says so: with 1."""
        self.down.add(node)
        self.counts.take(self.cluster.metrics_url(node))
        if by_kill:
            self.cluster.kill(node)
            return
        code = self.cluster.stop(node)
        if code not in (0, None, int(lacks_dir)):
            self.ledger.report("bad-stop", f"node {node} was stopped in order and ended with {code}")

    def _start(self, nodes: Sequence[int], *options: str, wait: bool = True) -> None:
        for node in nodes:
            self.cluster.start(node, *options, wait=False)
            self.down.discard(node)
        if not wait:
            return
        try:
            self.cluster.wait_ready(START_TIMEOUT_S)
        except PenstockError as error:
            raise StuckError(f"the start of {nodes}: {error}") from error

    def _replace_dir(self, node: int, number: int) -> str:
        """Empties one dir of a stopped node, sees the start refused, and formats it; the directory id that is lost."""
        directory = self.log_dirs[node][number]
        lost = read_meta_properties(OsFileSystem(), str(directory))
        if lost is None:
            raise StuckError(f"{directory} has no meta.properties")
        for entry in directory.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self._sync_disks()
        self._must_refuse(node, f"an unformatted d{number}")
        command = node_command("format", "--config", str(self.cluster.config_path(node)))
        command += ["--cluster-id", self.cluster.cluster_id]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StuckError(f"node {node} cannot be formatted: {done.stderr.strip()}")
        return lost.directory_id

    def _sync_disks(self) -> None:
        """Makes the operator's changes outlive the next power cut; a node sees to what it writes itself."""
        for disk in chain.from_iterable(self.disks):
            disk.sync()

    def _must_refuse(self, node: int, what: str) -> None:
        """A node that finds this must end by itself; whether it gets ready depends on others and says nothing."""
        self.cluster.start(node, wait=False)
        deadline = time.monotonic() + REFUSED_TIMEOUT_S
        while self.cluster.is_running(node):
            if time.monotonic() > deadline:
                self.ledger.report("accepted", f"node {node} started with {what}, and nobody had allowed it")
                break
            self._pause.wait(RETRY_S)
        self.cluster.kill(node)

    def _short(self) -> dict[str, object]:
        try:
            return {
                f"{name}-{p.partition}": (p.leader_id, p.isr)
                for name in self.topics()
                for p in self.admin.describe_topic(name).partitions
                if len(p.isr) < len(p.replicas) or p.leader_id < 0
            }
        except PenstockError as error:
            return {"metadata": str(error)}


def delete_until_gone(admin: Admin, topic: str, history: History) -> None:
    """Deletes a topic; an answer that got lost is asked for again, but only while the topic is there."""
    deadline = time.monotonic() + WHOLE_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            admin.delete_topic(topic)
            return
        except UnknownTopicOrPartitionError:
            return
        except PenstockError as error:
            history.write("refused", reader="admin", error=str(error)[:300])
    raise StuckError(f"topic {topic} cannot be deleted within {WHOLE_TIMEOUT_S:g} s")


def _exchange(one: Path, two: Path) -> None:
    """They may be on two disks."""
    aside = one.with_name(one.name + ASIDE)
    for source, target in ((one, aside), (two, one), (aside, two)):
        shutil.move(source, target)
