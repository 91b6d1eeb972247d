"""A cluster is rolled from release to release under load, and back: python -m tests.upgrades.

    python -m tests.upgrades                              every path of PATHS, open and secured
    python -m tests.upgrades --path 0.2.0..now --secured yes

Three nodes, each controller and broker, under the clients of load.py. A pass rolls them along its path, node by node,
back to the last but one in the other order, and forward again. Each step exchanges a node, by a stop or a crash in
turn; then the active controller is killed (-9), whichever release it is of, and the one after it makes a topic and
changes a configuration. Last the level is raised and lowered again, and where the release before reads what is left,
all nodes go back to it, each after a stop in order (docs/feature-levels.md). The table has a row for each step: records
acked, failed, lost, written twice; the longest time in which a partition acked nothing, and in which a writer of
transactions ended none. Anything but zeros in the three is wrong, and so is a complaint in a node's log.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from penstock import Admin
from penstock.errors import PenstockError
from penstock.messages.features import release_number
from penstock.testing import Cluster
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.upgrades.figures import Accounts, rows, table, wrongs
from tests.upgrades.judge import contradictions
from tests.upgrades.load import Load, found_in, prepare, variables
from tests.upgrades.mixture import Mixture
from tests.upgrades.releases import COMMITS, NOW, Release, release

NODES = 3
PATHS = ("0.1.0..now", "0.2.0..now", "0.1.0..0.2.0..now")
METADATA_VERSION, NEW_LEVEL = "metadata.version", 2
OLD_LEVEL, OLDEST_AT_IT = 1, "0.2.0"
"""The level to which a cluster is lowered, and the first release that reads all of it."""
REMEDIES = ("this node is older than the cluster; upgrade it", "or a newer one there")
"""The words of a node of 0.2.0 that reads a level's record first, and those of the controller that refuses to register
it, which name the release to install."""
BEFORE_S = 3.0
"""The load alone, before the first step."""
LIMIT = 12.0
"""A pass fails that takes so many times its seconds."""


@dataclass(frozen=True, slots=True)
class Options:
    path: tuple[str, ...] = option((), f"releases of {', '.join(COMMITS)} and {NOW}, with dots between", metavar="A..B")
    secured: str = option("both", "with TLS, SCRAM and ACLs", choices=("no", "yes", "both"))
    seconds: float = option(90.0, "of a pass, if its steps need no longer")


def play(run: Run[Options]) -> None:
    """Every path, open and secured as asked."""
    for path in run.options.path or PATHS:
        releases = [release(name, run.directory / "trees") for name in path.split("..")]
        for is_secure in {"no": (False,), "yes": (True,), "both": (False, True)}[run.options.secured]:
            run.say(f"{path}, {'secured' if is_secure else 'open'}")
            Pass(run, path, releases, is_secure=is_secure).tell()


class Pass:
    """One path, in a cluster of its own."""

    def __init__(self, run: Run[Options], path: str, releases: Sequence[Release], *, is_secure: bool) -> None:
        self._run, self._path, self._releases, self._is_secure = run, path, releases, is_secure
        self._steps: list[str] = []
        self._began_at: list[float] = []
        self._accounts = Accounts()

    def tell(self) -> None:
        """The pass, its judgement and its rows of the table."""
        first = self._releases[0]
        directory = self._run.directory / f"{self._path}-{'secured' if self._is_secure else 'open'}"
        directory.mkdir()
        with first.code_of():
            cluster = self._run.enter(Cluster(NODES, directory=directory / "cluster", secure=self._is_secure))
        mixture = Mixture(cluster, first, self._run.report, self._run.say)
        with Admin(cluster.bootstrap, **cluster.client_options) as admin:
            prepare(admin, is_secure=self._is_secure)
            load = Load(cluster, list(dict.fromkeys((first, release(NOW, directory)))), directory)
            with load.running(self._accounts):
                self._roll(admin, mixture, load)
        self._judge(cluster, mixture)
        cluster.close()

    def _roll(self, admin: Admin, mixture: Mixture, load: Load) -> None:
        """All steps; the level is raised once every node is of this release, and taken back after that."""
        legs = list(self._legs())
        with self._step(f"all of {self._releases[0].name}", BEFORE_S):
            load.wait_for_members()
        for node, to in legs:
            with self._step(f"node {node}: {to.name}", (self._run.options.seconds - BEFORE_S) / len(legs)):
                mixture.exchange(node, to)
                controller = mixture.kill_controller()
                self._run.say(f"  controller {controller} was killed; nodes {[one.name for one in mixture.releases]}")
                _decide(admin, len(self._steps))
                load.require_alive()
                if len(set(mixture.releases)) > 1:
                    self._raise_too_early(admin)
        if self._releases[-1].name == NOW:
            with self._step("the level is raised", 0.0):
                self._raise_level(admin, mixture)
                load.require_alive()
            if _reads_old_level(self._releases[-2]):
                self._take_back(admin, mixture, load)

    def _take_back(self, admin: Admin, mixture: Mixture, load: Load) -> None:
        """The level is lowered, and every node goes back to the release before, the last one first."""
        before = self._releases[-2]
        with self._step("the level is lowered", 0.0):
            admin.downgrade_features({METADATA_VERSION: OLD_LEVEL})
            load.require_alive()
        for node in reversed(range(NODES)):
            with self._step(f"node {node}: back to {before.name}", (self._run.options.seconds - BEFORE_S) / NODES**2):
                mixture.exchange(node, before, in_order=True)
                controller = mixture.kill_controller()
                self._run.say(f"  controller {controller} was killed; nodes {[one.name for one in mixture.releases]}")
                _decide(admin, len(self._steps))
                load.require_alive()

    def _raise_too_early(self, admin: Admin) -> None:
        """No level is raised over a node of an older release, whichever release leads."""
        try:
            admin.upgrade_features({METADATA_VERSION: NEW_LEVEL})
        except PenstockError as error:
            self._run.say(f"  refused: {error}")
        else:
            self._run.report.wrong("raised-too-early", self._steps[-1])

    def _raise_level(self, admin: Admin, mixture: Mixture) -> None:
        """A node of an older release is refused from then on, with a sentence that helps."""
        admin.upgrade_features({METADATA_VERSION: NEW_LEVEL})
        before = self._releases[-2]
        if before.name == NOW:
            return
        said = mixture.refused(0, before)
        sentences = [line for line in said.splitlines() if any(words in line for words in REMEDIES)]
        if not sentences:
            self._run.report.wrong("refused-without-help", f"node 0 of {before.name}: {said[-500:]}")
        self._run.say(f"node 0 of {before.name} is refused: {sentences[:1]}")

    def _legs(self) -> Iterator[tuple[int, Release]]:
        """A node and its next release: along the path, back to the last but one in the other order, and on again."""
        *before, _ = self._releases
        for to in self._releases[1:]:
            yield from ((node, to) for node in range(NODES))
        yield from ((node, before[-1]) for node in reversed(range(NODES)))
        yield from ((node, self._releases[-1]) for node in range(NODES))

    @contextmanager
    def _step(self, name: str, seconds: float) -> Iterator[None]:
        """A step lasts so long at least, so that its load is worth a row."""
        self._steps.append(name)
        self._began_at.append(time.monotonic())
        yield
        time.sleep(max(0.0, self._began_at[-1] + seconds - time.monotonic()))

    def _judge(self, cluster: Cluster, mixture: Mixture) -> None:
        report = self._run.report
        with patch.dict(os.environ, variables(cluster)):
            found = found_in(cluster)
        made = rows(self._began_at, self._accounts, found)
        title = f"{self._path}, {'secured' if self._is_secure else 'open'}"
        report.table += [*table(title, self._steps, made), ""]
        for kind in ("failed", "lost", "doubled"):
            for name, row in zip(self._steps, made, strict=True):
                if count := getattr(row, kind):
                    report.wrong(kind, f"{title}, {name}", count)
        report.all_wrong("failed-with", {f"{title}: {line[1]}" for line in self._accounts.failures()})
        readers = {name: lines for name, lines in self._accounts.readers.items() if lines}
        for text in contradictions(self._accounts.acks(), readers):
            report.wrong("contradiction", f"{title}: {text}")
        for kind, text in wrongs(self._accounts, found):
            report.wrong(kind, f"{title}: {text}")
        report.all_wrong("complaint", (f"{title}: {text}" for text in mixture.complaints()))
        acked = sum(row.acked for row in made)
        gap, pause = (round(max(getattr(row, name) for row in made), 1) for name in ("gap_s", "pause_s"))
        of_pass = {"acked": acked, "longest_gap_s": gap, "longest_pause_of_transactions_s": pause, "steps": len(made)}
        report.figures[title] = of_pass


def _reads_old_level(before: Release) -> bool:
    return before.name in COMMITS and release_number(before.name) >= release_number(OLDEST_AT_IT)


def _decide(admin: Admin, number: int) -> None:
    """Decisions of the controller that leads now, which nodes of every release have to follow."""
    admin.create_topic(f"made-{number}", 2, NODES)
    admin.alter_topic_config(f"made-{number}", {"retention.ms": 3_600_000})


def _limit_s(options: Options) -> float:
    passes = len(options.path or PATHS) * (2 if options.secured == "both" else 1)
    return LIMIT * options.seconds * passes


CAMPAIGN = Campaign("tests.upgrades", __doc__, Options, play, limit_s=_limit_s)
