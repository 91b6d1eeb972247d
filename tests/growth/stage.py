"""The stage of trouble.py: a fleet with small disks and calendars of its own, and an operator who changes its voters.

The operator works through an admin client, and waits for what must come by itself. An answer that no operator could
use, and anything that does not come in time, is wrong in the report.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from penstock import Admin
from penstock.admin import QuorumInfo, QuorumReplicaInfo
from penstock.errors import PenstockError
from tests.growth.voters import Load
from tests.support.campaign.frame import Run
from tests.support.fleet import Fleet
from tests.support.small_disk import fill

DISK_BYTES: Final = 48 << 20
VOTERS: Final = 3
CALL_MS: Final = 20_000
SOON_S: Final = 30.0
LOOK_S: Final = 0.1
LAG_MAX: Final = 50
"""Records by which a node may be behind under the load, and is well."""
FETCH_MS_MAX: Final = 3_000
BALLAST: Final = "ballast"


class NotInTimeError(AssertionError):
    """Something that must come by itself did not."""


@dataclass(slots=True)
class Stage:
    """The fleet, whose controllers are its voters and spares, and what the operator was told."""

    run: Run[Any]
    fleet: Fleet
    admin: Admin
    load: Load
    answers: list[str] = field(default_factory=list)

    # -- the quorum ----------------------------------------------------------------------------------------------------

    def quorum(self) -> QuorumInfo:
        """As its leader describes it; waits for one."""
        found: list[QuorumInfo] = []

        def has_leader() -> bool:
            with contextlib.suppress(PenstockError):
                found.append(self.admin.describe_quorum())
            return bool(found) and found[-1].has_leader

        self.wait("the quorum has a leader", has_leader)
        return found[-1]

    def leader(self) -> int:
        return self.quorum().leader_id

    def voters(self) -> dict[int, str]:
        """Node and directory id of each."""
        return {voter.node_id: voter.directory_id for voter in self.quorum().voters}

    def followers(self) -> list[int]:
        """The voters that do not lead."""
        found = self.quorum()
        return [voter.node_id for voter in found.voters if voter.node_id != found.leader_id]

    def spare(self) -> int:
        """A controller that runs, and is no voter."""
        voters = self.voters()
        return next(node for node in self.fleet.controllers if node not in voters and self.fleet.nodes[node].is_running)

    def wait_leader_but(self, node: int) -> int:
        """Another node leads."""
        self.wait(f"another node than {node} leads", lambda: self.leader() != node)
        return self.leader()

    def seen(self, node: int) -> QuorumReplicaInfo | None:
        """The node's present disk, as the leader knows it."""
        found, disk = self.quorum(), self.fleet.directory_id(node)
        replicas = (*found.voters, *found.observers)
        return next((one for one in replicas if (one.node_id, one.directory_id) == (node, disk)), None)

    def is_well(self, node: int) -> bool:
        """It fetches, and is not behind."""
        found, one = self.quorum(), self.seen(node)
        lag = None if one is None else found.lag_of(one)
        return one is not None and lag is not None and lag <= LAG_MAX and 0 <= one.last_fetch_ms_ago < FETCH_MS_MAX

    def wait_well(self, *nodes: int) -> None:
        for node in nodes:
            self.wait(f"node {node} is well", lambda node=node: self.is_well(node))  # type: ignore[misc]

    # -- what the operator does ----------------------------------------------------------------------------------------

    def add(self, node: int) -> None:
        with self.told(f"{node} is added"):
            self.admin.add_voter(node, self.fleet.directory_id(node), self.fleet.address(node))

    def remove(self, node: int, directory_id: str = "") -> None:
        with self.told(f"{node} is removed"):
            self.admin.remove_voter(node, directory_id or self.fleet.directory_id(node))

    def put_right(self) -> None:
        """Three voters again, each of which is well."""
        self.wait_well(*(node for node in self.fleet.controllers if self.fleet.nodes[node].is_running))
        while len(self.voters()) < VOTERS:
            self.add(self.spare())
        while len(self.voters()) > VOTERS:
            self.remove(self.followers()[0])

    def wait_topic(self) -> None:
        """A topic of the load whose creation began after this was made."""
        made = self.load.topics
        self.wait("a topic is made", lambda: self.load.topics >= made + 2)

    def refused(self, what: str, call: Callable[[], object], *words: str) -> None:
        """The call must be answered with an error, whose text has these words."""
        began = time.monotonic()
        try:
            call()
        except PenstockError as error:
            text = f"{type(error).__name__}: {error}"
            self.say(f"{time.monotonic() - began:5.2f} s: {what}: {text}")
            if missing := [word for word in words if word not in text]:
                self.run.report.wrong("answer", f"{what}: {text} lacks {missing}")
        else:
            self.run.report.wrong("answer", f"{what} was not refused")

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """A call that must succeed; how long it took is said."""
        began = time.monotonic()
        try:
            yield
        except PenstockError as error:
            self.run.report.wrong("refused", f"{what}: {error!r}")
            raise
        self.say(f"{time.monotonic() - began:5.2f} s: {what}")

    # -- disks and processes -------------------------------------------------------------------------------------------

    @contextmanager
    def full(self, node: int) -> Iterator[None]:
        """The node's disk has no room meanwhile. Its process must go on, and be well again by itself."""
        ballast = self.fleet.disks[node] / BALLAST
        fill(ballast)
        self.say(f"the disk of {node} is full")
        try:
            yield
        finally:
            ballast.unlink()
        if not self.fleet.nodes[node].is_running:
            self.run.report.wrong("ended", f"node {node}: {self.fleet.nodes[node].last_log_lines()[-3:]}")
            return
        began = time.monotonic()
        self.wait_well(node)
        self.say(f"{time.monotonic() - began:5.2f} s: {node} is well again with room")

    def format(self, node: int) -> str:
        """Formats its empty disk to join; what the command complains of."""
        try:
            self.fleet.format(node, "--join")
        except subprocess.CalledProcessError as error:
            return str(error.stderr.decode())
        return ""

    def empty(self, node: int) -> None:
        """Its process is killed, and its data are gone."""
        self.fleet.nodes[node].kill()
        shutil.rmtree(self.fleet.data(node))

    def wait(self, what: str, condition: Callable[[], bool], limit_s: float = SOON_S) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise NotInTimeError(f"not within {limit_s:g} s: {what}")
            time.sleep(LOOK_S)

    def say(self, text: str) -> None:
        self.run.say(f"    {text}")
