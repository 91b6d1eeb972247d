"""The operator in a story of a growing cluster: works by the commands that a user has, and by admin requests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock import Admin, Producer, TopicPartition
from penstock.errors import PenstockError
from penstock.testing import Cluster
from tests.support.campaign.frame import Report, Say

RECORD_BYTES = 64 * 1024
WAIT_S = 300.0
POLL_S = 0.2


@dataclass(slots=True)
class Operator:
    cluster: Cluster
    admin: Admin
    report: Report
    say: Say

    def wrong(self, text: str) -> None:
        """Something did not go as it must."""
        self.report.wrong("failed", text)

    def fill(self, topic: str, partitions: int, size_bytes: int, seed: int) -> None:
        """Writes so many bytes to a topic, evenly over its partitions."""
        random = Random(seed)
        with Producer(self.cluster.bootstrap, acks="all") as producer:
            for number in range(size_bytes // RECORD_BYTES):
                producer.send(topic, random.randbytes(RECORD_BYTES), partition=number % partitions)

    def move(self, moves: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begins these reassignments, or cancels those that have None; a refusal is wrong."""
        results: dict[TopicPartition, PenstockError | None] = dict(self.admin.alter_partition_reassignments(moves))
        self.report.all_wrong("refused", (f"{tp}: {error}" for tp, error in results.items() if error is not None))

    def wait_moved(self) -> None:
        """Until nothing is reassigned."""
        deadline = time.monotonic() + WAIT_S
        while self.admin.list_partition_reassignments():
            if time.monotonic() > deadline:
                self.wrong(f"still moving: {list(self.admin.reassignment_progress().items())[:3]}")
                return
            time.sleep(POLL_S)

    def wait_half_way(self, moves: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Until some bytes were copied, and not all."""
        before = None
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            progress = self.admin.reassignment_progress()
            left = sum(p.left_bytes or 0 for tp, p in progress.items() if tp in moves)
            if before is not None and left < before * 0.7:
                return
            before = left if before is None else max(before, left)
            time.sleep(POLL_S)
        self.wrong("the moves were not half done in time")

    def throttle(self, rate: int | None) -> None:
        """Copies of moving replicas have this rate on every broker, in bytes a second; None: no bound."""
        changes = []
        for side in ("leader", "follower"):
            key = f"{side}.replication.throttled.rate"
            changes += ["--unset", key] if rate is None else ["--set", f"{key}={rate}"]
        self.penstock("configs", "alter", "--broker-default", *changes)

    def penstock(self, *arguments: str) -> Any:
        """The command; with --json, what it printed."""
        program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
        command = [sys.executable, "-c", program, *arguments, "--bootstrap", self.cluster.bootstrap]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        if done.returncode != 0:
            self.wrong(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr[-500:]}")
            return None
        return json.loads(done.stdout.splitlines()[-1]) if "--json" in arguments and done.stdout else None
