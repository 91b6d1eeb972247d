"""One core with a memory log, driven by hand step by step, for unit and trace tests.

`perform` does the driver's work, at once and in its order, and keeps messages and answers for the test. Nothing happens
by itself: there are no timers and no network.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from penstock.record.builder import build_batch
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.messages import (
    AnswerReceived,
    Outbound,
    Request,
    RequestReceived,
    Response,
    SnapshotTaken,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState, State
from raft.ready import FetchReply, FollowerAppend, Ready, SnapshotReply
from raft.voters import VoterSet
from tests.support.raft_fakes import MemoryLog, MemoryStore
from tests.support.voters import voters_of

CLUSTER = "bench"


def batch(value: bytes, base_offset: int, epoch: int) -> bytes:
    """One batch with one record."""
    return build_batch([value], timestamps_ms=0, base_offset=base_offset, leader_epoch=epoch)


def log_of(*epochs: int) -> MemoryLog:
    """A flushed log with one record of each of these epochs."""
    log = MemoryLog()
    for offset, epoch in enumerate(epochs):
        log.append_as_follower(batch(b"old", offset, epoch))
    log.flush()
    return log


class Bench:
    def __init__(
        self,
        node_id: int = 1,
        voters: tuple[int, ...] | VoterSet = (1, 2, 3),
        stored: ElectionState | None = None,
        log: MemoryLog | None = None,
        **config: Any,
    ) -> None:
        first = voters if isinstance(voters, VoterSet) else voters_of(*voters)
        self.config = RaftConfig(CLUSTER, node_id, first, **config)
        self.log = log if log is not None else MemoryLog()
        self.store = MemoryStore(stored or ElectionState())
        self.now_ms = 10_000
        self.sent: list[Outbound] = []
        self.replies: dict[int, Response] = {}
        self.readys: list[Ready] = []
        self._next_request_id = 1
        self.core = RaftCore(self.config, self.store.state or ElectionState(), self.log, Random(node_id), self.now_ms)

    # -- one thing at a time -------------------------------------------------------------------------------------------

    def request(self, request: Request) -> Response | None:
        """Another node asks; the answer, or None while the request is parked."""
        return self.replies.pop(self.ask(request), None)

    def ask(self, request: Request) -> int:
        request_id = self._next_request_id
        self._next_request_id += 1
        self.core.step(RequestReceived(request_id, request), self.now_ms)
        self.perform()
        return request_id

    def answer(self, outbound: Outbound, response: Response) -> None:
        self.core.step(AnswerReceived(outbound.correlation_id, response), self.now_ms)
        self.perform()

    def advance_to_deadline(self) -> None:
        self.now_ms = max(self.now_ms, self.core.next_deadline_ms())
        self.core.tick(self.now_ms)
        self.perform()

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.core.tick(self.now_ms)
        self.perform()

    def perform(self) -> None:
        """Every Ready there is, as the driver would."""
        while (ready := self.core.ready()) is not None:
            self.readys.append(ready)
            self._perform(ready)

    def take_sent(self) -> list[Outbound]:
        taken, self.sent = self.sent, []
        return taken

    # -- to a state ----------------------------------------------------------------------------------------------------

    def become_prospective(self) -> Bench:
        while self.core.state is not State.PROSPECTIVE:
            self.advance_to_deadline()
        return self

    def become_candidate(self) -> Bench:
        self.become_prospective()
        for outbound in self.take_sent():
            if isinstance(outbound.request, VoteRequest) and self.core.state is State.PROSPECTIVE:
                self.answer(outbound, VoteResponse(-1, self.core.epoch, True))
        return self

    def become_leader(self) -> Bench:
        self.become_candidate()
        for outbound in self.take_sent():
            if isinstance(outbound.request, VoteRequest) and self.core.state is State.CANDIDATE:
                self.answer(outbound, VoteResponse(-1, self.core.epoch, True))
        return self

    def _perform(self, ready: Ready) -> None:
        if ready.election_state is not None:
            self.store.save(ready.election_state)
        if ready.truncate_to is not None:
            self.log.truncate_to(ready.truncate_to)
        for append in ready.append:
            if isinstance(append, FollowerAppend):
                self.log.append_as_follower(append.records)
            else:
                self.log.append_as_leader(build_batch(append.values, timestamps_ms=0), append.epoch)
        installed = self._take_snapshot(ready)
        for reply in ready.fetch_replies:
            self.replies[reply.request_id] = self._with_records(reply)
        for wanted in ready.snapshot_replies:
            self.replies[wanted.request_id] = self._with_bytes(wanted)
        if ready.cut_prefix_to is not None:
            self.log.cut_prefix(ready.cut_prefix_to)
        if ready.changes_log:
            self.log.flush()
        self.sent += ready.messages
        self.replies |= {reply.request_id: reply.response for reply in ready.replies}
        self.core.advance(self.log.flushed_offset)
        if ready.complete_snapshot is not None:
            voters = next((said for offset, said in self.log.voter_sets if offset < 0), None) if installed else None
            self.core.step(SnapshotTaken(ready.complete_snapshot, installed, voters), self.now_ms)

    def _take_snapshot(self, ready: Ready) -> bool:
        for chunk in ready.snapshot_chunks:
            self.log.write_snapshot(chunk.snapshot_id, chunk.position, chunk.data)
        wanted = ready.complete_snapshot
        return wanted is not None and self.log.install_snapshot(wanted) is not None

    def _with_bytes(self, reply: SnapshotReply) -> Response:
        wanted = reply.response.snapshot_id
        assert wanted is not None
        found = self.log.read_snapshot(wanted, reply.response.position, reply.max_bytes)
        assert found is not None
        return replace(reply.response, size_bytes=found[0], data=found[1])

    def _with_records(self, reply: FetchReply) -> Response:
        if reply.read is None:
            return reply.response
        read = reply.read
        return replace(reply.response, records=self.log.read(read.start_offset, read.max_bytes, read.end_offset))
