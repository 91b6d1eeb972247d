"""Two releases in one cluster, from the older to this one and back: python -m tests.mixed_releases --before TREE.

Node by node on the same directories, under clients of both. A node goes in turn by SIGTERM and by SIGKILL, so the other
release opens both a log dir that was closed and one that was not. After each exchange an administrator of each release
does everything once. While nodes of both run, that is done under an active controller of each: then requests are
forwarded, and metadata fetched, both ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import Admin
from penstock.testing import Cluster
from tests.mixed_releases.judge import contradictions
from tests.mixed_releases.releases import Release, RunningClient
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option

HERE = Path(__file__).resolve().parents[2]
NODES, PARTITIONS = 3, 6
TOPIC = "load"
CONTROLLER_TRIES = 12
COMPLAINT = re.compile(r" (ERROR|CRITICAL) |Traceback|UNKNOWN_SERVER_ERROR|Exception")


@dataclass(frozen=True, slots=True)
class Options:
    before: str = option("", "the tree of the older release", required=True)


def play(run: Run[Options]) -> None:
    """One pass."""
    before, now = Release("before", Path(run.options.before).resolve()), Release("now", HERE)
    for release in (before, now):
        release.require()
    with before.code_of():
        # A release without listeners of the type KAFKA would speak gRPC there.
        cluster = run.cluster(NODES, kafka_ports=(0,) * NODES)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, NODES)
    Pass(run, cluster, before, now).tell()
    run.report.all_wrong("complaint", _complaints(cluster))


class Pass:
    """The cluster, the release of each node, and the clients."""

    def __init__(self, run: Run[Options], cluster: Cluster, before: Release, now: Release) -> None:
        self._run, self._cluster, self._releases = run, cluster, (before, now)
        self._runs = dict.fromkeys(range(NODES), before)
        self._exchanges = self._rounds = 0

    def tell(self) -> None:
        before, now = self._releases
        with self._clients():
            for release, nodes in ((now, range(NODES)), (before, reversed(range(NODES)))):
                for node in nodes:
                    self._exchange(node, release)
                    self._administer()
        self._run.report.figures |= {"exchanges": self._exchanges, "rounds": self._rounds}

    @contextmanager
    def _clients(self) -> Iterator[None]:
        directory, at = self._run.directory, self._cluster.bootstrap
        readers = [RunningClient(release, "consume", directory, at, TOPIC) for release in self._releases]
        writers = [RunningClient(one, "produce", directory, at, TOPIC, one.name) for one in self._releases]
        try:
            yield
            acked = {f"producer {one.release.name}": one.end() for one in writers}
            read = {f"consumer {one.release.name}": one.end() for one in readers}
        finally:
            for one in (*writers, *readers):
                one.kill()
        self._run.report.all_wrong("contradiction", contradictions(acked, read))
        self._run.report.figures |= {"acked": sum(map(len, acked.values())), "read": sum(map(len, read.values()))}

    def _exchange(self, node: int, release: Release) -> None:
        """The node's next process is of another release."""
        is_crash = self._exchanges % 2 == 1
        if is_crash:
            self._cluster.kill(node)
        elif code := self._cluster.stop(node):
            self._run.report.wrong("bad-stop", f"node {node} of {self._runs[node].name}: exit code {code}")
        self._runs[node] = release
        self._start(node)
        self._exchanges += 1
        self._run.say(f"node {node} runs the release {release.name!r}, after a {'crash' if is_crash else 'stop'}")

    def _start(self, node: int) -> None:
        with self._runs[node].code_of():
            self._cluster.start(node)
        self._runs[node].require_of(self._cluster.pid(node))
        self._cluster.wait_in_sync()

    def _administer(self) -> None:
        """Everything once by each release, under an active controller of every release that runs."""
        for release in sorted(set(self._runs.values()), key=lambda one: one.name):
            controller = self._controller_of(release)
            told: list[dict[str, Any]] = []
            for client in self._releases:
                prefix = f"{client.name}-{self._rounds}"
                told.append(client.call("administer", self._cluster.bootstrap, prefix, TOPIC))
                self._rounds += 1
            names = "".join("bn"[one is self._releases[1]] for one in self._runs.values())
            self._run.say(f"  nodes {names}, controller {controller} ({release.name}): both administrators are done")
            before, now = told
            for part in (part for part in before if before[part] != now[part]):
                where = f"under controller {controller} ({release.name}) of {names}"
                self._run.report.wrong("told-differently", f"{where}, {part}: {before[part]} and {now[part]}")

    def _controller_of(self, release: Release) -> int:
        """An active controller of that release: one of the other is killed until another is elected, and is away
        meanwhile. One that stops in order, or comes back soon, names its successors, the same ones each time."""
        for _ in range(CONTROLLER_TRIES):
            controller = self._cluster.controller()
            if self._runs[controller] is release:
                return controller
            self._cluster.kill(controller)
            self._cluster.controller()
            self._start(controller)
        raise TimeoutError(f"no node of {release.name} became the active controller in {CONTROLLER_TRIES} elections")


def _complaints(cluster: Cluster) -> Iterator[str]:
    """Lines of the nodes' logs that no exchange should leave."""
    for node in range(NODES):
        lines = cluster.log_path(node).read_text(errors="replace").splitlines()
        yield from (f"node {node} says: {line[:500]}" for line in lines if COMPLAINT.search(line))


CAMPAIGN = Campaign("tests.mixed_releases", __doc__, Options, play)
