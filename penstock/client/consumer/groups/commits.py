"""Commits the offsets of a group, one request at a time, so that no older commit overtakes a newer one.

What the user gives to a commit is checked first: offsets by partition, each of a partition that is this consumer's.
Commits that wait while one is under way are put together; each caller is told of its own partitions. An error that
passes is tried again until the batch's deadline; after STALE_MEMBER_EPOCH the member first learns its new epoch by a
heartbeat. Works on one event loop. Not here: which offsets, and when (auto_commit.py, joined_group.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from penstock.base_error import without_frames
from penstock.client.cluster.arguments import MAX_INT32, checked_mapping, checked_number, checked_partition
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import ServerErrors
from penstock.client.consumer.groups.group_service import GroupService
from penstock.errors import (
    ApiError,
    CommitFailedError,
    FencedMemberEpochError,
    IllegalGenerationError,
    PenstockError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    TimedOutError,
    TopicRecreatedError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest
from penstock.position import Position
from penstock.types import NO_EPOCH, CommittedOffset, TopicPartition

_log = logging.getLogger(__name__)

PARTITIONS_PER_CALL_MAX = 1_000
"""Limit for one request; a commit of more is written in several steps."""
NOT_A_MEMBER: tuple[type[ApiError], ...] = (
    UnknownMemberIdError,
    FencedMemberEpochError,
    IllegalGenerationError,
    RebalanceInProgressError,
)
UNKNOWN_TOPIC = (UnknownTopicOrPartitionError, UnknownTopicIdError)
UNKNOWN_TOPIC_ATTEMPTS = 4
"""A coordinator may not have heard yet of a topic that was just created. After this many such answers the topic counts
as deleted."""

EXAMPLE = "{record_partition: record.position}"


class ToCommit(NamedTuple):
    """An offset with its text, and the id of its topic where it is known."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    topic_id: str = ""


class MemberStamp(NamedTuple):
    """The member that commits: nobody, for a consumer that assigns its partitions itself."""

    member_id: str = ""
    member_epoch: int = NO_EPOCH
    instance_id: str | None = None


class Committer(Protocol):
    """The member that commits."""

    def stamp(self) -> MemberStamp:
        """The member's id and epoch as of now; CommitFailedError where it is not (or no longer) a member."""
        ...

    def on_stale_epoch(self) -> None:
        """The coordinator has a newer epoch, or does not know the member: the next heartbeat is to be sent at once."""
        ...

    def on_committed(self, offsets: Mapping[TopicPartition, ToCommit]) -> None: ...


@dataclass(slots=True)
class _Batch:
    """The newest offset of each partition, and the callers that wait for it."""

    deadline_ms: int
    offsets: dict[TopicPartition, ToCommit] = field(default_factory=dict)
    waiters: list[tuple[frozenset[TopicPartition], asyncio.Future[None]]] = field(default_factory=list)


class Commits:
    """The commits of one consumer."""

    def __init__(self, group_id: str, cluster: ClusterClient, service: GroupService, committer: Committer) -> None:
        self._group_id = group_id
        self._cluster = cluster
        self._service = service
        self._committer = committer
        self._waiting: _Batch | None = None
        self._is_member = False  # who committed last
        self._running: asyncio.Task[None] | None = None

    def submit(self, offsets: Mapping[TopicPartition, ToCommit], deadline_ms: int) -> asyncio.Future[None]:
        """Done when the offsets, or newer ones of this consumer, are committed; else it has the error."""
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not offsets:
            outcome.set_result(None)
            return outcome
        if self._waiting is None:
            self._waiting = _Batch(deadline_ms)
        batch = self._waiting
        batch.deadline_ms = max(batch.deadline_ms, deadline_ms)
        batch.offsets.update(offsets)
        batch.waiters.append((frozenset(offsets), outcome))
        outcome.add_done_callback(_seen)
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
        return outcome

    async def _run(self) -> None:
        while (batch := self._waiting) is not None:
            self._waiting = None
            try:
                failed = await self._commit(batch)
            except BaseException as error:  # a close, or a program that cancels all tasks of its loop
                ended = CommitFailedError("the consumer ended before the commit was answered")
                self._tell(batch, dict.fromkeys(batch.offsets, ended))
                if isinstance(error, asyncio.CancelledError):
                    raise
                _log.exception("a commit of group %s", self._group_id)
                continue
            self._tell(batch, failed)

    def _tell(self, batch: _Batch, failed: Mapping[TopicPartition, PenstockError]) -> None:
        for partitions, outcome in batch.waiters:
            if outcome.done():
                continue  # the caller has left
            error = next((failed[tp] for tp in partitions if tp in failed), None)
            if error is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(without_frames(error))

    async def _commit(self, batch: _Batch) -> dict[TopicPartition, PenstockError]:
        """The partitions that could not be committed, and why."""
        left, failed = dict(batch.offsets), dict[TopicPartition, PenstockError]()
        reported = ServerErrors[TopicPartition]()
        attempt = 0
        while left:
            attempt += 1
            errors = await self._attempt(left, batch.deadline_ms)
            done = {tp: offset for tp, offset in left.items() if tp not in errors}
            self._committer.on_committed(done)
            wait_ms = self._cluster.backoff.wait_ms(attempt)
            is_late = self._cluster.clock.now_ms() + wait_ms >= batch.deadline_ms
            for tp, error in errors.items():
                reported.note(tp, error)
                if is_late or not _may_pass(error, attempt):
                    failed[tp] = _for_user(reported.for_user(tp, error), tp, self._is_member)
            left = {tp: offset for tp, offset in left.items() if tp in errors and tp not in failed}
            if left:
                await asyncio.sleep(max(wait_ms, 1) / 1000)
        return failed

    async def _attempt(
        self, offsets: Mapping[TopicPartition, ToCommit], deadline_ms: int
    ) -> dict[TopicPartition, PenstockError]:
        errors: dict[TopicPartition, PenstockError] = {}
        wanted = list(offsets.items())
        for at in range(0, len(wanted), PARTITIONS_PER_CALL_MAX):
            errors |= await self._ask(wanted[at : at + PARTITIONS_PER_CALL_MAX], deadline_ms)
        if any(isinstance(error, (StaleMemberEpochError, *NOT_A_MEMBER)) for error in errors.values()):
            self._committer.on_stale_epoch()
        return errors

    async def _ask(
        self, wanted: Sequence[tuple[TopicPartition, ToCommit]], deadline_ms: int
    ) -> dict[TopicPartition, PenstockError]:
        """One request. A request that fails as a whole has failed for each partition."""
        try:
            member = self._committer.stamp()
            self._is_member = bool(member.member_id)
            parts = tuple(
                OffsetCommitPartition(tp, to.offset, to.leader_epoch, to.metadata, to.topic_id) for tp, to in wanted
            )
            request = OffsetCommitRequest(
                self._group_id, parts, member.member_id, member.member_epoch, member.instance_id
            )
            answer = await self._service.commit(request, deadline_ms)
        except PenstockError as error:
            return {tp: error for tp, _ in wanted}
        return {result.partition: result.error for result in answer.partitions if result.error is not None}

    async def wait_idle(self) -> None:
        """Waits until no commit is under way."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    async def close(self) -> None:
        """Ends what is under way; its outcome is not known. Idempotent."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        batch, self._waiting = self._waiting, None
        if batch is not None:
            ended = CommitFailedError("the consumer was closed before the commit was sent")
            self._tell(batch, dict.fromkeys(batch.offsets, ended))

    def __repr__(self) -> str:
        return f"Commits({self._group_id}, waiting={self._waiting is not None})"


def _may_pass(error: PenstockError, attempt: int) -> bool:
    if isinstance(error, UNKNOWN_TOPIC):
        return attempt < UNKNOWN_TOPIC_ATTEMPTS
    return isinstance(error, ApiError) and (error.retriable or isinstance(error, StaleMemberEpochError))


def _for_user(error: PenstockError, tp: TopicPartition, is_member: bool) -> PenstockError:
    if isinstance(error, UnknownMemberIdError) and not is_member:
        return CommitFailedError(
            f"{tp}: the group has members, which alone commit; subscribe, or give this consumer a group_id of its own"
        )
    if isinstance(error, (StaleMemberEpochError, *NOT_A_MEMBER)):
        return CommitFailedError(
            f"{tp}: the group has put this member out, or has gone on without it ({error}): what is not committed is"
            " read again by another member. Poll more often than max_poll_interval_ms, or give fewer records at a time"
            " (max_poll_records)"
        )
    if isinstance(error, ApiError) and error.retriable and not isinstance(error, UNKNOWN_TOPIC):
        return TimedOutError(f"{tp}: the offset was not committed in time; the last error: {error}")
    return error


def _seen(outcome: asyncio.Future[None]) -> None:
    """asyncio logs an exception that nobody asks for, and the caller may have left."""
    if not outcome.cancelled():
        outcome.exception()


def checked_offsets(positions: Any, owned: Mapping[TopicPartition, str] | None) -> dict[TopicPartition, ToCommit]:
    """`owned` are the partitions that the group has given to this consumer; None: it assigns them itself."""
    if positions is not None and not isinstance(positions, Mapping):
        positions = checked_mapping("positions", positions, EXAMPLE)
    found = {}
    for given, position in positions.items():
        tp = checked_partition(given)
        if owned is not None and tp not in owned:
            raise CommitFailedError(
                f"{tp} is not assigned to this consumer (any more): commit in on_revoked at the latest; the member that"
                " has it now reads again from what was committed before"
            )
        found[tp] = _checked(tp, position, "" if owned is None else owned[tp])
    return found


def _checked(tp: TopicPartition, given: Any, topic_id: str) -> ToCommit:
    if isinstance(given, Position):
        if topic_id and given.topic_id and given.topic_id != topic_id:
            raise TopicRecreatedError(tp.topic, tp.partition, expected_id=given.topic_id, found_id=topic_id)
        return ToCommit(given.offset, given.leader_epoch, topic_id=given.topic_id or topic_id)
    if isinstance(given, CommittedOffset):
        offset = checked_number("offset", given.offset, 0)
        epoch = checked_number("leader_epoch", given.leader_epoch, NO_EPOCH, MAX_INT32)
        if not isinstance(given.metadata, str):
            raise TypeError(f"metadata={given.metadata!r} must be a str")
        return ToCommit(offset, epoch, given.metadata, topic_id)
    if hasattr(given, "position"):
        raise TypeError(f"{tp}: commit record.position, the place after the record, and not the record")
    return ToCommit(checked_number("offset", given, 0), topic_id=topic_id)
