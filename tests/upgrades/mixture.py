"""A cluster whose nodes are of different releases: each node's next process may be of another one.

A node goes in turn by SIGTERM and by SIGKILL, so the other release opens both a log dir that was closed and one that
was not. Complaints in the nodes' logs are found here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.testing import Cluster
from tests.support.campaign.frame import Report, Say
from tests.support.waiting import wait_until
from tests.upgrades.releases import Release

CONTROLLER_TRIES = 12
REFUSED_S = 60.0
COMPLAINT = re.compile(r" (ERROR|CRITICAL) |Traceback|UNKNOWN_SERVER_ERROR|Exception")


class Mixture:
    """The nodes of a running cluster, and the release of each."""

    def __init__(self, cluster: Cluster, release: Release, report: Report, say: Say) -> None:
        """`release`: the one that all nodes have at first."""
        self._cluster, self._report, self._say = cluster, report, say
        self._runs = dict.fromkeys(range(len(cluster)), release)
        self.exchanges = 0
        self._expected: list[str] = []

    @property
    def releases(self) -> Sequence[Release]:
        """The release of each node."""
        return list(self._runs.values())

    def exchange(self, node: int, release: Release, *, in_order: bool = False) -> None:
        """The node's next process is of another release; all replicas are in sync afterwards. `in_order`: it is
        stopped, whoever's turn it is."""
        is_crash = self.exchanges % 2 == 1 and not in_order
        if is_crash:
            self._cluster.kill(node)
        elif code := self._cluster.stop(node):
            self._report.wrong("bad-stop", f"node {node} of {self._runs[node].name}: exit code {code}")
        self._runs[node] = release
        self._start(node)
        self.exchanges += 1
        self._say(f"node {node} runs the release {release.name!r}, after a {'crash' if is_crash else 'stop'}")

    def kill_controller(self) -> int:
        """The active controller is killed, and comes back once another one is elected; the number of the node."""
        controller = self._cluster.controller()
        self._cluster.kill(controller)
        self._cluster.controller()
        self._start(controller)
        return controller

    def controller_of(self, release: Release) -> int:
        """An active controller of that release: one of the other is killed until another is elected, and is away
        meanwhile. One that stops in order, or comes back soon, names its successors, the same ones each time."""
        for _ in range(CONTROLLER_TRIES):
            controller = self._cluster.controller()
            if self._runs[controller] is release:
                return controller
            self.kill_controller()
        raise TimeoutError(f"no node of {release.name} became the active controller in {CONTROLLER_TRIES} elections")

    def refused(self, node: int, release: Release) -> str:
        """The last lines of a node of an older release, started in its place on its directory; RuntimeError where it
        goes on. The node is of its own release afterwards."""
        self._cluster.stop(node)
        path = self._cluster.log_path(node)
        before = path.stat().st_size
        with release.code_of():
            self._cluster.start(node, wait=False)
        try:
            wait_until(lambda: not self._cluster.is_running(node), REFUSED_S)
        except TimeoutError:
            raise RuntimeError(f"node {node} of {release.name} goes on for {REFUSED_S:g} s") from None
        finally:
            said = path.read_bytes()[before:].decode(errors="replace")
            self._expected.append(said)
            self._cluster.kill(node)
            self._start(node)
        return said

    def complaints(self) -> Iterator[str]:
        """Lines of the nodes' logs that no exchange should leave."""
        for node in self._runs:
            text = self._cluster.log_path(node).read_text(errors="replace")
            for said in self._expected:
                text = text.replace(said, "")
            lines = text.splitlines()
            yield from (f"node {node} says: {line[:500]}" for line in lines if COMPLAINT.search(line))

    def _start(self, node: int) -> None:
        with self._runs[node].code_of():
            self._cluster.start(node)
        self._runs[node].require_of(self._cluster.pid(node))
        self._cluster.wait_in_sync()
