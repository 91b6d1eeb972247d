"""Administrators of two releases are told the same: python -m tests.upgrades.administrators --before 0.2.0.

A cluster goes from the older release to this one and back, node by node on the same directories, under clients of both.
After each exchange an administrator of each release does everything once. While nodes of both run, that is done under
an active controller of each: then requests are forwarded, and metadata fetched, both ways.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock import Admin
from penstock.testing import Cluster
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.upgrades.figures import FAILED
from tests.upgrades.judge import contradictions
from tests.upgrades.mixture import Mixture
from tests.upgrades.releases import COMMITS, NOW, Release, RunningClient, release

NODES, PARTITIONS = 3, 6
TOPIC = "load"


@dataclass(frozen=True, slots=True)
class Options:
    before: str = option("", f"the older release: {', '.join(COMMITS)}, or the path of a tree", required=True)


def play(run: Run[Options]) -> None:
    """One pass."""
    before, now = (release(name, run.directory / "trees") for name in (run.options.before, NOW))
    with before.code_of():
        cluster = run.cluster(NODES)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, NODES)
    Pass(run, cluster, before, now).tell()


class Pass:
    """The cluster, its nodes' releases, and the clients."""

    def __init__(self, run: Run[Options], cluster: Cluster, before: Release, now: Release) -> None:
        self._run, self._cluster, self._releases = run, cluster, (before, now)
        self._mixture = Mixture(cluster, before, run.report, run.say)
        self._rounds = 0

    def tell(self) -> None:
        before, now = self._releases
        with self._clients():
            for to, nodes in ((now, range(NODES)), (before, reversed(range(NODES)))):
                for node in nodes:
                    self._mixture.exchange(node, to)
                    self._administer()
        self._run.report.figures |= {"exchanges": self._mixture.exchanges, "rounds": self._rounds}
        self._run.report.all_wrong("complaint", self._mixture.complaints())

    @contextmanager
    def _clients(self) -> Iterator[None]:
        directory, at = self._run.directory, self._cluster.bootstrap
        readers = [RunningClient(one, "ours", directory, "consume", at, TOPIC, one.name) for one in self._releases]
        writers = [RunningClient(one, "ours", directory, "produce", at, TOPIC, one.name) for one in self._releases]
        try:
            yield
            acked = {one.name: one.end() for one in writers}
            read = {one.name: one.end() for one in readers}
        finally:
            for one in (*writers, *readers):
                one.kill()
        failed = [line for lines in acked.values() for line in lines if line[0] == FAILED]
        self._run.report.all_wrong("failed", map(str, failed))
        self._run.report.all_wrong("contradiction", contradictions(acked, read))
        self._run.report.figures |= {"acked": sum(map(len, acked.values())), "read": sum(map(len, read.values()))}

    def _administer(self) -> None:
        """Everything once by each release, under an active controller of every release that runs."""
        runs = self._mixture.releases
        for running in sorted(set(runs), key=lambda one: one.name):
            controller = self._mixture.controller_of(running)
            rows: list[dict[str, Any]] = []
            for client in self._releases:
                prefix = f"{client.name.replace('/', '_')}-{self._rounds}"
                rows.append(client.call("administrator", self._cluster.bootstrap, prefix, TOPIC))
                self._rounds += 1
            names = "".join("bn"[one is self._releases[1]] for one in runs)
            self._run.say(f"  nodes {names}, controller {controller} ({running.name}): both administrators are done")
            before, now = rows
            for part in (part for part in before if before[part] != now[part]):
                where = f"under controller {controller} ({running.name}) of {names}"
                self._run.report.wrong("told-differently", f"{where}, {part}: {before[part]} and {now[part]}")


CAMPAIGN = Campaign("tests.upgrades.administrators", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
