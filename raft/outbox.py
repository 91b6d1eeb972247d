"""Collects the core's effects until the driver takes them as one Ready, and remembers which requests are open.

A request is forgotten when the state that sent it ends; that is how late answers are dropped. The outbox decides
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.types import EpochEndOffset
from raft.messages import FetchMetadataResponse, FetchSnapshotResponse, Outbound, Request, Response
from raft.quorum_state import ElectionState
from raft.ready import (
    FetchReply,
    FollowerAppend,
    LeaderAppend,
    ReadRange,
    Ready,
    Reply,
    SnapshotChunk,
    SnapshotReply,
)


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request that was sent and is not answered yet."""

    to: int
    request: Request


class Outbox:
    """Pending work of one core."""

    def __init__(self) -> None:
        self._next_correlation_id = 1
        self._open: dict[int, OpenRequest] = {}
        self._truncate_to: int | None = None
        self._append: list[LeaderAppend | FollowerAppend] = []
        self._snapshot_chunks: list[SnapshotChunk] = []
        self._complete_snapshot: EpochEndOffset | None = None
        self._snapshot_replies: list[SnapshotReply] = []
        self._cut_prefix_to: int | None = None
        self._fetch_replies: list[FetchReply] = []
        self._messages: list[Outbound] = []
        self._replies: list[Reply] = []

    def __repr__(self) -> str:
        return f"Outbox({len(self._messages)} messages, {len(self._replies)} replies, {len(self._open)} questions)"

    def ask(self, to: int, request: Request) -> None:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self._open[correlation_id] = OpenRequest(to, request)
        self._messages.append(Outbound(to, correlation_id, request))

    def tell(self, to: int, request: Request) -> None:
        """Send a request whose answer is ignored."""
        self._messages.append(Outbound(to, self._next_correlation_id, request))
        self._next_correlation_id += 1

    def take_question(self, correlation_id: int) -> OpenRequest | None:
        """Close the open request of this number and return it; None if it was dropped."""
        return self._open.pop(correlation_id, None)

    def forget_questions(self) -> None:
        """Drop all open requests; those that the driver has not taken yet are not sent at all."""
        unsent = self._open.keys()
        self._messages = [message for message in self._messages if message.correlation_id not in unsent]
        self._open.clear()

    def reply(self, request_id: int, response: Response) -> None:
        if isinstance(response, FetchMetadataResponse):
            self._fetch_replies.append(FetchReply(request_id, response, None))
        else:
            self._replies.append(Reply(request_id, response))

    def reply_with_records(self, request_id: int, response: FetchMetadataResponse, read: ReadRange) -> None:
        self._fetch_replies.append(FetchReply(request_id, response, read))

    def reply_with_snapshot(self, request_id: int, response: FetchSnapshotResponse, max_bytes: int) -> None:
        self._snapshot_replies.append(SnapshotReply(request_id, response, max_bytes))

    def withdraw_records(self, response: FetchMetadataResponse) -> None:
        """Leadership has ended: fetch answers not yet handed over carry `response` in place of records."""
        self._fetch_replies = [replace(reply, response=response, read=None) for reply in self._fetch_replies]

    def drop_reply(self, request_id: int) -> None:
        self._fetch_replies = [reply for reply in self._fetch_replies if reply.request_id != request_id]
        self._snapshot_replies = [reply for reply in self._snapshot_replies if reply.request_id != request_id]

    def append(self, what: LeaderAppend | FollowerAppend) -> None:
        self._append.append(what)

    def truncate_to(self, offset: int) -> None:
        if self._append or self._truncate_to is not None:
            raise InvariantViolation(f"truncation to {offset} while earlier changes of the log are not written")
        self._truncate_to = offset

    def write_snapshot(self, chunk: SnapshotChunk, *, is_last: bool) -> None:
        self._snapshot_chunks.append(chunk)
        if is_last:
            self._complete_snapshot = chunk.snapshot_id

    def cut_prefix_to(self, offset: int) -> None:
        self._cut_prefix_to = offset

    def drain(self, election_state: ElectionState | None, committed_offset: int | None) -> Ready | None:
        """Everything collected, as one Ready; None when there is nothing to do."""
        moves = (election_state, committed_offset, self._truncate_to, self._cut_prefix_to)
        if all(move is None for move in moves) and not any(self._pending()):
            return None
        ready = Ready(
            election_state,
            self._truncate_to,
            tuple(self._append),
            tuple(self._snapshot_chunks),
            self._complete_snapshot,
            tuple(self._fetch_replies),
            tuple(self._snapshot_replies),
            self._cut_prefix_to,
            tuple(self._messages),
            tuple(self._replies),
            committed_offset,
        )
        self._truncate_to = self._complete_snapshot = self._cut_prefix_to = None
        for pending in self._pending():
            pending.clear()
        return ready

    def _pending(self) -> Iterable[list[Any]]:
        """All lists in which something is collected."""
        replies = (self._fetch_replies, self._snapshot_replies, self._replies)
        return self._append, self._snapshot_chunks, *replies, self._messages
