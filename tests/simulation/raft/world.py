"""The simulated world: time, network, disks, crashes, clients. One seed gives one history, hashed as it happens.

Runs real cores. After `faulty_ms` everything heals, and then the quorum must make progress: elect, commit a new record
on every node, and converge.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from raft.config import RaftConfig
from raft.messages import (
    AnswerReceived,
    FetchMetadataRequest,
    FetchMetadataResponse,
    Outbound,
    Request,
    RequestFailed,
    RequestReceived,
    Response,
)
from raft.quorum_state import Forgotten
from raft.voters import VoterSet
from tests.simulation.raft.faults import Faults
from tests.simulation.raft.node import LOSSES, SimNode
from tests.simulation.raft.oracle import Oracle, Violated
from tests.support.voters import voters_of

REQUEST_TIMEOUT_MS = 400
HEAL_MS = 6_000
EVENTS_MAX = 60_000
"""A run that needs more is a live-lock: nodes talk and nothing comes of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on its way: who asked, in which life, under which number."""

    asker: int
    incarnation: int
    correlation_id: int
    request: Request


class World:
    def __init__(self, seed: int, faults: Faults, voters: int, observers: int = 0, mutant: str | None = None) -> None:
        self.random = Random(seed)
        self.faults = faults
        self.mutant = mutant
        self.now_ms = 1_000
        self.events = 0
        self.proposed = 0
        self.crashes = 0
        self.losses = 0
        self.snapshots = 0
        self.installed = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._lose_after_vote = False
        self._healed = False
        self._cut: set[tuple[int, int]] = set()
        self._asked: dict[tuple[int, int, int], Asked] = {}
        self._next_request_id = 1
        self._first = self.first_voters(voters)
        self.oracle = Oracle(self._first)
        self.nodes = {node_id: SimNode(self, self.config(node_id)) for node_id in range(1, voters + observers + 1)}

    def first_voters(self, count: int) -> VoterSet:
        return voters_of(*range(1, count + 1))

    def config(self, node_id: int) -> RaftConfig:
        return RaftConfig(
            "sim",
            node_id,
            self._first,
            election_timeout_ms=100,
            fetch_timeout_ms=250,
            fetch_max_wait_ms=60,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=10,
            retry_backoff_max_ms=100,
            fetch_max_bytes=self.faults.snapshot_chunk_bytes or (1 if self.faults.tiny_fetches else 1 << 16),
        )

    # -- time ----------------------------------------------------------------------------------------------------------

    def schedule(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._sequence, what))

    def run_until(self, end_ms: int) -> None:
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _, what = heapq.heappop(self._heap)
            self.events += 1
            if self.events > EVENTS_MAX:
                raise Violated("I24: live-lock, too many events")
            what()
        self.now_ms = end_ms

    def note(self, *what: object) -> None:
        """Into the running hash: two runs of one seed must agree on every note."""
        self._digest.update(repr((self.now_ms, what)).encode())

    def digest(self) -> str:
        return self._digest.hexdigest()

    # -- a life --------------------------------------------------------------------------------------------------------

    def live(self, faulty_ms: int) -> None:
        """Faults and clients, then healing, then the end checks."""
        for node in self.nodes.values():
            self.schedule(self.random.randint(0, 50), node.start)
        for every_ms, what in (
            *self.operators(),
            (self.faults.partition_every_ms, self._partition),
            (self.faults.crash_every_ms, self._crash_any),
            (self.faults.leader_crash_every_ms, self._crash_leader),
            (self.faults.pause_every_ms, self._pause),
            (self.faults.lose_every_ms, self._lose),
            (self.faults.snapshot_every_ms, self._snapshot),
            (30, self._client),
        ):
            if every_ms:
                self._again(every_ms, what, self.now_ms + faulty_ms)
        self.run_until(self.now_ms + faulty_ms)
        self._heal()
        self.run_until(self.now_ms + HEAL_MS)
        self.require_progress()

    def operators(self) -> Sequence[tuple[int, Callable[[], None]]]:
        """The people who change the quorum while it runs, and how often."""
        return ()

    def _again(self, every_ms: int, what: Callable[[], None], until_ms: int) -> None:
        def fire() -> None:
            if self.now_ms < until_ms:
                what()
                self._again(every_ms, what, until_ms)

        self.schedule(self.random.randint(every_ms // 2, every_ms * 3 // 2), fire)

    def _client(self) -> None:
        for node in self.nodes.values():
            if node.up and node.core.leadership is not None and node.propose(b"v%d" % self.proposed) is not None:
                self.proposed += 1

    def _heal(self) -> None:
        self.faults = replace(self.faults, drop=0.0, duplicate=0.0, late=0.0, slow_disk=0.0, rot=0.0)
        self._healed = True
        self._cut.clear()
        for node in self.nodes.values():
            node.paused_until_ms = 0
            if not node.up:
                node.start()

    def require_progress(self) -> None:
        """I23, I24: after healing there is a leader, it commits, and all logs are the same, byte for byte."""
        leaders = [node for node in self.nodes.values() if node.core.leadership is not None]
        if not leaders:
            raise Violated("I24: no leader after everything healed")
        leader = max(leaders, key=lambda node: node.core.epoch)
        offset = leader.propose(b"last")
        self.run_until(self.now_ms + 500)
        for node in self.nodes.values():
            start = max(node.log.log_start_offset, leader.log.log_start_offset)
            same = node.log.batches_from(start) == leader.log.batches_from(start)
            if offset is None or node.seen_committed <= offset or not same:
                raise Violated(f"I23: {node.node_id} did not converge: {node.core!r}, leader {leader.core!r}")
        for node in self.nodes.values():
            if node.core.forgotten is not Forgotten.NOTHING:
                raise Violated(f"I23: {node.node_id} does not take part again: {node.core!r}")
        self.note("end", self.oracle.committed)

    # -- faults --------------------------------------------------------------------------------------------------------

    def disk_ms(self) -> int:
        return self.random.randint(1, 400 if self.random.random() < self.faults.slow_disk else 4)

    def _crash_any(self) -> None:
        self._crash(self.random.choice(list(self.nodes.values())))

    def _crash_leader(self) -> None:
        leaders = [node for node in self.nodes.values() if node.up and node.core.leadership is not None]
        if leaders:
            self._crash(self.random.choice(leaders))

    def _crash(self, node: SimNode) -> None:
        if not node.up:
            return
        self.crashes += 1
        self.note(node.node_id, "crash")
        node.crash()
        self._restart_later(node)

    def _lose(self) -> None:
        """A voter crashes and comes back without something that it had made durable."""
        leaders = [node.node_id for node in self.nodes.values() if node.up and node.core.leadership is not None]
        if leaders and self.random.random() < 0.5:
            self._lose_after_vote = True
            self._isolate(self.random.choice(leaders))
            return
        voters = [node for node in self.nodes.values() if self._may_lose(node)]
        if voters:
            self._lose_now(self.random.choice(voters))

    def voted(self, node: SimNode, candidate: int) -> None:
        """A vote was given and told: the moment to forget it, if one is to be forgotten. Where the candidate is cut off
        as well, nobody but the one that forgot knows of its epoch, and a leader of an older one may live yet."""
        if not self._lose_after_vote or self._healed:
            return
        self._lose_after_vote = False

        def lose() -> None:
            if self._healed:
                return
            if self.random.random() < 0.5:
                self._isolate(candidate)
            self._lose_now(node)

        node.later(self.random.randint(1, 20), lose)

    def _may_lose(self, node: SimNode) -> bool:
        """A majority always knows everything, or nobody could be elected any more."""
        whole = [other for other in self.nodes.values() if other.is_voter and not other.ghosts]
        return node.is_voter and (bool(node.ghosts) or len(whole) > node.config.first_voters.majority)

    def _lose_now(self, node: SimNode) -> None:
        if not node.up or not self._may_lose(node):
            return
        self.crashes += 1
        self.losses += 1
        what = self.random.choice(LOSSES)
        self.note(node.node_id, "loses", what)
        node.lose(what)
        self._restart_later(node)

    def _restart_later(self, node: SimNode) -> None:
        def restart() -> None:
            if not node.up:
                node.start()

        self.schedule(self.random.choice((5, 50, 600)), restart)

    def _snapshot(self) -> None:
        self.random.choice(list(self.nodes.values())).take_snapshot(self.random.choice((1, 1, 2, 3)))

    def rotten(self, data: bytes) -> bytes:
        """With a flipped bit, now and then."""
        if self.random.random() >= self.faults.rot:
            return data
        at = self.random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1 :]

    def _pause(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        node.paused_until_ms = self.now_ms + self.random.choice((20, 300, 1_000))

    def _partition(self) -> None:
        """Nothing cut, one node cut off, two halves, or single directions."""
        ids = list(self.nodes)
        self._cut.clear()
        kind = self.random.randrange(4)
        if kind == 1:
            self._isolate(self.random.choice(ids))
        elif kind == 2:
            half = set(self.random.sample(ids, len(ids) // 2))
            self._cut = {(a, b) for a in ids for b in ids if (a in half) != (b in half)}
        elif kind == 3:
            self._cut = {(a, b) for a in ids for b in ids if self.random.random() < 0.3}

    def _isolate(self, alone: int) -> None:
        self._cut = {(a, b) for a in self.nodes for b in self.nodes if alone in (a, b)}

    # -- network -------------------------------------------------------------------------------------------------------

    def send(self, node: SimNode, message: Outbound) -> None:
        asked = Asked(node.node_id, node.incarnation, message.correlation_id, message.request)
        for _ in range(2 if self.random.random() < self.faults.duplicate else 1):
            self._carry(node.node_id, message.to, lambda: self._deliver(asked, message.to))
        wait_ms = message.request.max_wait_ms if isinstance(message.request, FetchMetadataRequest) else 0
        node.later(REQUEST_TIMEOUT_MS + wait_ms, lambda: node.step(RequestFailed(message.correlation_id)))

    def answer(self, node: SimNode, request_id: int, response: Response) -> None:
        asked = self._asked.pop((node.node_id, node.incarnation, request_id), None)
        if asked is None:
            return
        self._carry(node.node_id, asked.asker, lambda: self._deliver_answer(asked, response))

    def answer_fetch(self, node: SimNode, request_id: int, response: Response, records: bytes) -> None:
        if isinstance(response, FetchMetadataResponse) and records:
            response = replace(response, records=records)
        self.answer(node, request_id, response)

    def request_of(self, node: SimNode, request_id: int) -> Request | None:
        asked = self._asked.get((node.node_id, node.incarnation, request_id))
        return asked.request if asked else None

    def _carry(self, source: int, target: int, arrive: Callable[[], None]) -> None:
        if self.random.random() < self.faults.drop:
            return
        late = self.random.random() < self.faults.late
        delay_ms = self.random.randint(50, 5_000) if late else self.random.randint(1, 6)

        def arrived() -> None:
            if (source, target) not in self._cut:
                arrive()

        self.schedule(delay_ms, arrived)

    def _deliver(self, asked: Asked, target: int) -> None:
        node = self.nodes[target]
        if not node.up:
            return
        request_id = self._next_request_id
        self._next_request_id += 1
        self._asked[target, node.incarnation, request_id] = asked
        self.note(target, asked.request)
        node.step(RequestReceived(request_id, asked.request))

    def _deliver_answer(self, asked: Asked, response: Response) -> None:
        node = self.nodes[asked.asker]
        if not node.up or node.incarnation != asked.incarnation:
            return  # the connection died with the process
        self.note(asked.asker, response)
        node.step(AnswerReceived(asked.correlation_id, response))
