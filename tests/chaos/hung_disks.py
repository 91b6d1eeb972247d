"""Disks of a chaos run that hang, and what that costs the partitions that are not on them.

A log dir hangs as hanging_fs.py says. A record that was sent meanwhile, to a partition without a replica in that log
dir, has to be acked within BESIDE_S. Nothing else is wrong with its replicas, because the fault begins when every ISR
is whole. A producer may still have a backlog of the fault before, so a record counts from when the one before it was
acked, of its producer and partition. What goes to the hung dir may take as long as it likes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from unittest.mock import patch

from penstock import Admin, TopicPartition
from penstock.client.admin.log_dir_info import LogDirInfo
from penstock.local_nodes import node_process as process
from tests.chaos.hanging_node import hanging_node_command
from tests.chaos.ledger import Ledger
from tests.support.hanging_fs import flag_of

BESIDE_S = 2.0
"""The worst ack that a disk of others may cost."""
HANG_MS_MAX = 5_000
"""log.dir.hang.ms.max: some hangs are longer, and the log dir fails."""
SETTLE_S = 2.5
"""Nothing else happens for so long after a hang: the last records that count are acked, or are late."""


@contextmanager
def nodes_that_can_hang(log_dirs: Sequence[Sequence[Path]]) -> Iterator[None]:
    """The nodes that a Cluster starts within have log dirs that can hang."""
    joined = os.pathsep.join(str(path) for paths in log_dirs for path in paths)
    with patch.object(process, "node_command", lambda *arguments: hanging_node_command(joined, *arguments)):
        yield


class HungDisks:
    """One log dir at a time. `acked` may be called in any thread."""

    def __init__(self, admin: Admin, ledger: Ledger) -> None:
        self._admin, self._ledger = admin, ledger
        self._beside: frozenset[TopicPartition] = frozenset()
        self._since = self._until = inf
        self._acked_at: dict[tuple[int, TopicPartition], float] = {}
        """By producer: the newest ack."""
        self.worst_ack_s = 0.0
        """The longest time until a record was acked that was sent, while a log dir hung, to a partition without a
        replica there."""
        self.acked_beside = 0

    @contextmanager
    def hanging(self, node: int, log_dir: Path, partitions: Collection[TopicPartition]) -> Iterator[None]:
        """The log dir hangs within."""
        flag = flag_of(log_dir)
        self._beside = frozenset(partitions) - set(self._replicas(node, log_dir))
        flag.touch()
        self._since, self._until = time.monotonic(), inf
        try:
            yield
        finally:
            self._until = time.monotonic()
            flag.unlink()

    def acked(self, producer: int, tp: TopicPartition, sent_at: float) -> None:
        """A record is."""
        now = time.monotonic()
        before, self._acked_at[producer, tp] = self._acked_at.get((producer, tp), 0.0), now
        if tp not in self._beside or not self._since <= sent_at < self._until:
            return
        ended_at = min(now, self._until + SETTLE_S)  # what waits for longer may wait for the next fault
        took_s = max(ended_at - max(sent_at, before), 0.0)
        self.acked_beside += 1
        self.worst_ack_s = max(self.worst_ack_s, took_s)
        if took_s > BESIDE_S:
            self._ledger.report("slow-beside-a-hung-disk", f"{tp}: acked after {took_s:.1f} s, limit {BESIDE_S:g} s")

    def has_failed(self, node: int, log_dir: Path) -> bool:
        """True if the node has taken the log dir out of service."""
        return any(found.path == str(log_dir) and found.error is not None for found in self._log_dirs(node))

    def _replicas(self, node: int, log_dir: Path) -> Iterator[TopicPartition]:
        for found in self._log_dirs(node):
            if found.path == str(log_dir):
                yield from found.replicas

    def _log_dirs(self, node: int) -> Sequence[LogDirInfo]:
        answer = self._admin.describe_log_dirs([node])[node]
        if answer.error is not None:
            raise answer.error
        return answer.log_dirs

    def __repr__(self) -> str:
        return f"HungDisks({self.acked_beside} acked beside, the worst after {self.worst_ack_s:.1f} s)"
