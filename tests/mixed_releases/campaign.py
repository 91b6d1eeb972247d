"""One pass from the older release to this one and back, node by node on the same directories, under clients of both.

A node goes in turn by SIGTERM and by SIGKILL, so the other release opens both a log dir that was closed and one that
was not. After each exchange an administrator of each release does everything once. While nodes of both run, that is
done under an active controller of each: then requests are forwarded, and metadata fetched, both ways.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import Admin
from penstock.testing import Cluster
from tests.mixed_releases.judge import contradictions
from tests.mixed_releases.releases import Release, RunningClient

NODES, PARTITIONS = 3, 6
TOPIC = "load"
CONTROLLER_TRIES = 12
COMPLAINT = re.compile(r" (ERROR|CRITICAL) |Traceback|UNKNOWN_SERVER_ERROR|Exception")
SHOWN_MAX = 20


@dataclass(slots=True)
class Outcome:
    """The result of one pass."""

    exchanges: int = 0
    rounds: int = 0
    """How often an administrator did everything, by either release."""
    acked: int = 0
    read: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.wrong


class Pass:
    """The cluster, the release of each node, and the clients."""

    def __init__(self, directory: Path, before: Release, now: Release, say: Callable[[str], None]) -> None:
        self._directory, self._releases = directory, (before, now)
        self._runs = dict.fromkeys(range(NODES), before)
        self._say = say
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """The pass; what is wrong is in the outcome, what ends it is an exception."""
        began = time.monotonic()
        before, now = self._releases
        with before.code_of():
            # A release without listeners of the type KAFKA would speak gRPC there.
            cluster = Cluster(NODES, directory=self._directory / "cluster", kafka_ports=(0,) * NODES).open()
        try:
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic(TOPIC, PARTITIONS, NODES)
            with self._clients(cluster):
                for release, nodes in ((now, range(NODES)), (before, reversed(range(NODES)))):
                    for node in nodes:
                        self._exchange(cluster, node, release)
                        self._administer(cluster)
            self._outcome.wrong += _complaints(cluster)
        finally:
            cluster.close()
        self._outcome.seconds = round(time.monotonic() - began, 1)
        return self._outcome

    @contextmanager
    def _clients(self, cluster: Cluster) -> Iterator[None]:
        at = cluster.bootstrap
        readers = [RunningClient(release, "consume", self._directory, at, TOPIC) for release in self._releases]
        writers = [
            RunningClient(release, "produce", self._directory, at, TOPIC, release.name) for release in self._releases
        ]
        try:
            yield
            acked = {f"producer {one.release.name}": one.end() for one in writers}
            read = {f"consumer {one.release.name}": one.end() for one in readers}
        finally:
            for one in (*writers, *readers):
                one.kill()
        self._outcome.wrong += contradictions(acked, read)
        self._outcome.acked = sum(map(len, acked.values()))
        self._outcome.read = sum(map(len, read.values()))

    def _exchange(self, cluster: Cluster, node: int, release: Release) -> None:
        """The node's next process is of another release."""
        is_crash = self._outcome.exchanges % 2 == 1
        if is_crash:
            cluster.kill(node)
        elif code := cluster.stop(node):
            self._outcome.wrong.append(f"node {node} of {self._runs[node].name} stopped with exit code {code}")
        self._runs[node] = release
        self._start(cluster, node)
        self._outcome.exchanges += 1
        self._say(f"node {node} runs the release {release.name!r}, after a {'crash' if is_crash else 'stop'}")

    def _start(self, cluster: Cluster, node: int) -> None:
        with self._runs[node].code_of():
            cluster.start(node)
        self._runs[node].require_of(cluster.pid(node))
        cluster.wait_in_sync()

    def _administer(self, cluster: Cluster) -> None:
        """Everything once by each release, under an active controller of every release that runs."""
        for release in sorted(set(self._runs.values()), key=lambda one: one.name):
            controller = self._controller_of(cluster, release)
            told: list[dict[str, Any]] = []
            for client in self._releases:
                prefix = f"{client.name}-{self._outcome.rounds}"
                told.append(client.call("administer", cluster.bootstrap, prefix, TOPIC))
                self._outcome.rounds += 1
            names = "".join("bn"[one is self._releases[1]] for one in self._runs.values())
            self._say(f"  nodes {names}, controller {controller} ({release.name}): both administrators are done")
            before, now = told
            self._outcome.wrong += [
                f"under controller {controller} ({release.name}) of {names}, {part}: {before[part]} and {now[part]}"
                for part in before
                if before[part] != now[part]
            ]

    def _controller_of(self, cluster: Cluster, release: Release) -> int:
        """An active controller of that release: one of the other is restarted until another is elected."""
        for _ in range(CONTROLLER_TRIES):
            controller = cluster.controller()
            if self._runs[controller] is release:
                return controller
            cluster.stop(controller)
            self._start(cluster, controller)
        raise TimeoutError(f"no node of {release.name} became the active controller in {CONTROLLER_TRIES} elections")


def _complaints(cluster: Cluster) -> list[str]:
    """Lines of the nodes' logs that no exchange should leave."""
    found: list[str] = []
    for node in range(NODES):
        lines = cluster.log_path(node).read_text(errors="replace").splitlines()
        found += [f"node {node} says: {line[:500]}" for line in lines if COMPLAINT.search(line)]
    return found[:SHOWN_MAX]
