"""A partition for idempotent producers, as a model: what a leader checks, replicas, elections, and who may ack when.

The rules are the promises of the brokers. A log has a list of batches; what it knows of producers follows from that
list alone. A leader that lost an election without having heard of it goes on to append, and what it appends is never
committed. Whatever is committed is in the log of every member of the ISR, and stays there.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import InvalidProducerEpochError, OutOfOrderSequenceError, UnknownProducerIdError

NODES = (1, 2, 3)
BATCHES_KNOWN = 5


class Written(NamedTuple):
    """A batch in a log."""

    producer_id: int
    epoch: int
    base: int
    last: int
    values: tuple[int, ...]


def append(log: list[Written], batch: Written, known_from: int) -> int:
    """Where the batch stands in the log now, for the first or another time. What is before `known_from` is forgotten:
    its producers have been silent for longer than they are remembered."""
    mine = [at for at in range(known_from, len(log)) if log[at].producer_id == batch.producer_id]
    if not mine and batch.base:
        raise UnknownProducerIdError
    if mine:
        newest = log[mine[-1]]
        for at in mine[-BATCHES_KNOWN:]:
            if log[at][1:4] == (newest.epoch, batch.base, batch.last) and batch.epoch == newest.epoch:
                return at
        if batch.epoch < newest.epoch:
            raise InvalidProducerEpochError
        if batch.base != (0 if batch.epoch > newest.epoch else newest.last + 1):
            raise OutOfOrderSequenceError
    log.append(batch)
    return len(log) - 1


class Partition:
    """Three replicas, and who leads."""

    def __init__(self) -> None:
        self.logs: dict[int, list[Written]] = {node: [] for node in NODES}
        self.leader, self.epoch = 1, 0
        self.isr = set(NODES)
        self.deposed: int | None = None  # believes that it leads
        self.committed = 0
        self.committed_there: int = 0  # what the deposed leader knows to be committed
        self.known_from = 0
        self.resigned = dict.fromkeys(NODES, 0)
        """How often a node has heard that it leads no more: what waited there for an ack is answered with an error."""

    def leads(self, node: int) -> bool:
        """True if the node believes that it leads."""
        return node in (self.leader, self.deposed)

    def committed_at(self, node: int) -> int:
        """How many batches this leader may ack."""
        return self.committed if node == self.leader else self.committed_there

    def offset(self, node: int, at: int) -> int:
        return sum(len(batch.values) for batch in self.logs[node][:at])

    def replicate(self, follower: int, count: int) -> None:
        """The follower has up to `count` more batches of its leader; what is not the leader's is cut."""
        theirs, mine = self.logs[self.leader], self.logs[follower]
        if follower != self.leader:
            same = self._common(follower)
            mine[same:] = theirs[same : same + count]
        self.committed = max(self.committed, min(self._common(node) for node in self.isr))

    def _common(self, node: int) -> int:
        """How many batches of the leader are at this node, from the first on."""
        theirs, mine = self.logs[self.leader], self.logs[node]
        pairs = enumerate(zip(theirs, mine, strict=False))
        return next((at for at, (one, other) in pairs if one is not other), min(len(theirs), len(mine)))

    def elect(self, node: int, *, is_heard: bool) -> None:
        """A member of the ISR leads from now on. The old leader may not hear of it."""
        if not is_heard and self.deposed is None and node != self.leader:
            self.deposed, self.committed_there = self.leader, self.committed
            self.isr.discard(self.leader)
        elif node != self.leader:
            self.resigned[self.leader] += 1
        self.leader, self.epoch = node, self.epoch + 1

    def hear(self) -> None:
        """The deposed leader hears of the election, catches up, and is in sync again."""
        if self.deposed is not None:
            node, self.deposed = self.deposed, None
            self.resigned[node] += 1
            self.replicate(node, len(self.logs[self.leader]))
            self.isr.add(node)
