"""The leading half of a node, for one epoch: takes proposals and fetches, counts acks, moves the high watermark.

Made when an election is won, closed when the epoch's leadership ends. A fetch that would bring neither records nor a
new high watermark is parked until there are some, or its time is up. The bytes of proposals that wait for a majority
have a limit. Nothing here changes the state of the node: `tick` only reports that the quorum is lost.
quorum_replicas.py has the nodes that fetch, progress.py the rule of commitment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.errors import (
    InvalidRequestError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    ResourceExhaustedError,
    SnapshotNotFoundError,
)
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, NO_OFFSET, EpochEndOffset
from raft import progress
from raft.decided_log import BEGINNING
from raft.messages import (
    BeginQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    leader_change_value,
)
from raft.progress import ReplicaProgress
from raft.quorum_replicas import QuorumReplicas
from raft.ready import LeaderAppend, ReadRange
from raft.shared import Shared
from raft.validation import Objection
from raft.voter_changes import LeadersView, VoterChange, changed_voters
from raft.voter_records import voters_value
from raft.voters import VoterSet

RECORD_OVERHEAD_BYTES = 32
BATCH_OVERHEAD_BYTES = 64
"""Upper bounds of what framing adds in a v2 batch, so that limits can be checked before anything is encoded."""


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    request_id: int
    request: FetchMetadataRequest
    deadline_ms: int


class Leadership:
    """The state of a leader in its epoch, and the fetches that it has still to answer."""

    def __init__(self, shared: Shared, now_ms: int) -> None:
        self._shared = shared
        self.epoch = shared.quorum.epoch
        self.epoch_start_offset = shared.log.log_end_offset
        self._time_ms = now_ms
        """This leader's clock, when it was looked at last. Each answer has it."""
        self.replicas = QuorumReplicas(shared.config, shared.quorum, shared.backoff_ms, now_ms)
        """The other nodes, as this leader knows them."""
        self._parked: dict[ReplicaProgress, ParkedFetch] = {}
        """One each. Two disks of one id are two replicas: they must not end each other's fetches, again and again."""
        self._uncommitted: deque[tuple[int, int]] = deque()  # (next offset, bytes) of each batch that waits
        self._uncommitted_bytes = 0
        self._append_beginning()
        self._send_begin_notices(now_ms)

    def __repr__(self) -> str:
        return (
            f"Leadership(epoch {self.epoch} from {self.epoch_start_offset}, {len(self._parked)} parked, "
            f"{self._uncommitted_bytes} bytes uncommitted)"
        )

    @property
    def uncommitted_bytes(self) -> int:
        return self._uncommitted_bytes

    @property
    def has_committed(self) -> bool:
        """True if a record of this epoch is committed: only then may the node act as leader."""
        return self._shared.log.high_watermark > self.epoch_start_offset

    @property
    def is_over(self) -> bool:
        """True if this leader is no voter any more, and the record of that is committed: then it must not lead on
        (Ongaro, 2014, §4.2.2; KIP-853)."""
        quorum = self._shared.quorum
        return not quorum.is_voter and not self._is_changing

    @property
    def _is_changing(self) -> bool:
        """The newest set of voters waits for its majority."""
        return not self._shared.quorum.history.is_committed

    def sent_end_besides(self, node_id: int, incarnation_id: str) -> int:
        """No process of that node but this one was sent a record at this offset or behind it, by any leader.

        Invariant: not below the start of this epoch. Records before that may be an earlier leader's, and it is not
        known here which of them that leader has sent. A record from this offset on was appended by this leader, and
        nobody else sends it.
        """
        config, log = self._shared.config, self._shared.log
        if node_id == config.node_id:  # its own log; it takes no fetches from its own id (validation.py)
            sent_end = 0 if incarnation_id and incarnation_id == config.incarnation_id else log.log_end_offset
        else:
            sent_end = self.replicas.sent_end_besides(node_id, incarnation_id)
        return max(self.epoch_start_offset, sent_end)

    def propose(self, values: Sequence[bytes]) -> int:
        """Append one batch of `values`; the offset of the last. Nothing is appended when a limit would be passed."""
        config = self._shared.config
        if not values:
            raise InvalidRequestError("a proposal needs at least one value")
        size = _size_bytes(values)
        if size > config.batch_max_bytes:
            raise MessageTooLargeError(f"proposal of about {size} bytes; the limit is {config.batch_max_bytes}")
        if self._uncommitted and self._uncommitted_bytes + size > config.uncommitted_max_bytes:
            raise ResourceExhaustedError(
                f"{self._uncommitted_bytes} bytes wait for a majority; the limit is {config.uncommitted_max_bytes}"
            )
        self._append(tuple(values), size)
        self._answer_parked()
        return self._shared.log.log_end_offset - 1

    def change_voters(self, change: VoterChange, now_ms: int, asked_ms: int | None = None) -> int:
        """Append the set that the change makes, which counts at once; the offset of its record. With `asked_ms` a
        majority must have fetched since then, otherwise within the fetch time-out."""
        shared, was_static = self._shared, not self._shared.quorum.voters.is_dynamic
        view = LeadersView(
            shared.config.node_id,
            shared.config.directory_id,
            shared.quorum.voters,
            self.has_committed,
            self._is_changing,
            self.replicas.find,
            since_ms := now_ms - shared.config.fetch_timeout_ms,
            since_ms if asked_ms is None else max(since_ms, asked_ms),
            self.replicas.observers_of_older_releases(since_ms),
        )
        voters = changed_voters(change, view)
        self._append_voters(voters)
        if was_static:
            self.replicas.name_directories()
        offset = shared.log.log_end_offset - 1
        self.on_flushed()  # fewer voters may need fewer acks
        self._answer_parked()
        self._send_begin_notices(now_ms)
        return offset

    def on_fetch(self, request_id: int, request: FetchMetadataRequest, now_ms: int) -> None:
        """A replica's fetch in this epoch: note its ack, then answer or park."""
        wrong = self._objection(request)
        if wrong is not None:
            self._shared.refuse(request_id, request, *wrong)
            return
        replica, log = self._contacted(request, now_ms), self._shared.log
        process = request.incarnation_id, request.replica_directory_id
        self._shared.counters.acks_lost += self.replicas.has_lost_acks(replica, process, request.fetch_offset)
        replica.supports = request.supports
        # A node of an older release names no answer; but it lets a fetch wait only if the one before was answered.
        heard_ms = request.heard_ms or (now_ms if request.max_wait_ms > 0 else 0)
        replica.heard_ms = max(replica.heard_ms, min(heard_ms, now_ms))
        if log.needs_snapshot(request.fetch_offset, request.last_fetched_epoch):
            self._unpark(replica)
            self._answer(request_id, request, replica, snapshot_id=log.newest_snapshot)
            return
        diverging = log.diverging_epoch(request.fetch_offset, request.last_fetched_epoch)
        if diverging is not None:
            self._answer(request_id, request, replica, diverging)
            return
        replica.note_acked(request.fetch_offset, log.log_end_offset, now_ms)
        self._unpark(replica)
        if self.maybe_commit():
            self._answer_parked()
        if request.max_wait_ms <= 0 or self._has_news(replica, request):
            self._answer(request_id, request, replica)
        else:
            wait_ms = min(request.max_wait_ms, self._shared.config.fetch_timeout_ms)
            self._parked[replica] = ParkedFetch(request_id, request, now_ms + wait_ms)

    def on_fetch_snapshot(self, request_id: int, request: FetchSnapshotRequest, now_ms: int) -> None:
        """A replica that lags behind the log's start reads a snapshot; that is contact, as a fetch is (KIP-630)."""
        shared = self._shared
        replica = self._contacted(request, now_ms)
        if not shared.log.has_snapshot(request.snapshot_id):
            shared.refuse(
                request_id, request, SnapshotNotFoundError, f"snapshot {request.snapshot_id} is not kept here"
            )
            return
        replica.note_sent(request.incarnation_id, request.snapshot_id.end_offset)
        response = FetchSnapshotResponse(
            shared.config.node_id, self.epoch, request.snapshot_id, position=request.position
        )
        max_bytes = max(1, min(request.max_bytes, shared.config.fetch_max_bytes))
        shared.outbox.reply_with_snapshot(request_id, response, max_bytes)

    def on_flushed(self) -> None:
        """Notes that more of this node's own log is durable, which is its own ack."""
        if self.maybe_commit():
            self._answer_parked()

    def maybe_commit(self) -> bool:
        """Move the high watermark as far as a majority's acks allow; whether it moved."""
        shared = self._shared
        acked = [voter.acked_offset for voter in self.replicas.voters()]
        if shared.quorum.is_voter:
            acked.append(shared.log.flushed_offset)
        offset = progress.majority_offset(acked, shared.quorum.voters.majority)
        offset = progress.committed_offset(offset, self.epoch_start_offset, shared.log.high_watermark)
        if not shared.log.advance_high_watermark(offset):
            return False
        shared.quorum.history.note_committed(offset)
        while self._uncommitted and self._uncommitted[0][0] <= offset:
            self._uncommitted_bytes -= self._uncommitted.popleft()[1]
        return True

    def tick(self, now_ms: int) -> bool:
        """Answer fetches whose time is up, remind voters; False when the leader must resign: the quorum is lost, or it
        is no voter any more."""
        self._time_ms = now_ms
        if self.is_over or now_ms >= self.replicas.quorum_deadline_ms():
            return False
        for replica, parked in list(self._parked.items()):
            if now_ms >= parked.deadline_ms:
                self._answer_one_parked(replica)
        self._send_begin_notices(now_ms)
        return True

    def next_deadline_ms(self) -> int:
        if self.is_over:
            return self._time_ms
        deadlines = [parked.deadline_ms for parked in self._parked.values()]
        return min([self.replicas.quorum_deadline_ms(), self.replicas.next_notice_ms(), *deadlines])

    def abandon(self, request_id: int) -> None:
        """The node that fetched has gone away."""
        for replica, parked in self._parked.items():
            if parked.request_id == request_id:
                del self._parked[replica]
                return

    def close(self) -> None:
        """Leadership has ended: no parked fetch gets records of this epoch's leader any more."""
        answer = FetchMetadataResponse(
            leader_id=self._shared.quorum.leader_id,
            leader_epoch=self._shared.quorum.epoch,
            error_code=NotLeaderOrFollowerError.code,
            error_message=f"node {self._shared.config.node_id} leads no more",
        )
        self._shared.outbox.withdraw_records(answer)
        for parked in self._parked.values():
            self._shared.outbox.reply(parked.request_id, answer)
        self._parked.clear()

    def _append_beginning(self) -> None:
        """The first records of the epoch; of the first epoch of a dynamic quorum, the first voters among them."""
        quorum = self._shared.quorum
        values = (leader_change_value(self._shared.config.node_id, self.epoch, quorum.voters.ids),)
        self._append(values, _size_bytes(values))
        says_nothing = quorum.history.newest_offset == NO_OFFSET and self._shared.log.newest_snapshot == BEGINNING
        if quorum.voters.is_dynamic and says_nothing:
            self._append_voters(quorum.voters)

    def _append_voters(self, voters: VoterSet) -> None:
        """Appends the record that names the voters. This node goes by it from now on."""
        values = (voters_value(voters),)
        self._append(values, _size_bytes(values))
        self._shared.quorum.history.append(self._shared.log.log_end_offset - 1, voters)

    def _append(self, values: tuple[bytes, ...], size: int) -> None:
        log = self._shared.log
        base_offset = log.log_end_offset
        log.extend(base_offset + len(values), self.epoch)
        self._shared.outbox.append(LeaderAppend(self.epoch, base_offset, values))
        self._uncommitted.append((log.log_end_offset, size))
        self._uncommitted_bytes += size

    def _objection(self, request: FetchMetadataRequest) -> Objection | None:
        """The fault in the position of a fetch, or None; validation.py has checked before that its fields make sense at
        all."""
        if request.last_fetched_epoch == NO_EPOCH and request.fetch_offset > 0:
            return InvalidRequestError, f"a fetch at {request.fetch_offset} must say the epoch of the record before it"
        return None

    def forget_observer(self, replica_id: int, now_ms: int) -> int:
        """Forgets an observer that has not fetched within the fetch time-out; the number of its disks that were known.
        It is known again from its next fetch on."""
        forgotten = self.replicas.forget(replica_id, now_ms - self._shared.config.fetch_timeout_ms)
        for one in forgotten:
            self._unpark(one)
        return len(forgotten)

    def _contacted(self, request: FetchMetadataRequest | FetchSnapshotRequest, now_ms: int) -> ReplicaProgress:
        """The replica has asked for something in this epoch."""
        replica = self._known_replica(request)
        replica.directory_id = request.replica_directory_id
        replica.last_fetch_ms = self._time_ms = now_ms
        contact = self._shared.contact
        contact.at_ms = max(contact.at_ms, self.replicas.quorum_contact_ms())
        self.replicas.put_off_notice(replica, now_ms)
        return replica

    def _known_replica(self, request: FetchMetadataRequest | FetchSnapshotRequest) -> ReplicaProgress:
        """The replica's progress, made at need for an observer."""
        found = self.replicas.find(request.replica_id, request.replica_directory_id)
        if found is not None:
            return found
        forgotten = self.replicas.make_room()
        if forgotten is not None:
            self._unpark(forgotten)
        return self.replicas.add_observer(request.replica_id, request.replica_directory_id)

    def _readable_end(self, replica: ReplicaProgress) -> int:
        """The end of the records that the node may be sent. A voter gets the record of its removal only when that is
        committed: its log must not be longer than that of a voter which may need its vote (Ongaro, 2014, §4.1)."""
        history, log_end = self._shared.quorum.history, self._shared.log.log_end_offset
        if history.is_committed:
            return log_end
        removed_at = history.removed_at(replica.replica_id, replica.directory_id)
        return log_end if removed_at is None else removed_at

    def _has_news(self, replica: ReplicaProgress, request: FetchMetadataRequest) -> bool:
        if self._shared.log.high_watermark > replica.sent_high_watermark:
            return True
        return self._readable_end(replica) > request.fetch_offset

    def _answer(
        self,
        request_id: int,
        request: FetchMetadataRequest,
        replica: ReplicaProgress,
        diverging: EpochEndOffset | None = None,
        snapshot_id: EpochEndOffset | None = None,
    ) -> None:
        shared, log, end = self._shared, self._shared.log, self._readable_end(replica)
        response = FetchMetadataResponse(
            shared.config.node_id,
            self.epoch,
            log.high_watermark,
            log.log_start_offset,
            diverging_epoch=diverging,
            snapshot_id=snapshot_id,
            log_end_offset=log.log_end_offset,
            leader_time_ms=self._time_ms,
        )
        shared.counters.fetches_answered += 1
        if diverging is None and snapshot_id is None:
            replica.sent_high_watermark = log.high_watermark
            replica.note_sent(request.incarnation_id, end)
        if diverging is not None or snapshot_id is not None or request.fetch_offset >= end:
            shared.outbox.reply(request_id, response)
            return
        max_bytes = max(1, min(request.max_bytes, shared.config.fetch_max_bytes))
        read = ReadRange(request.fetch_offset, max_bytes, end)
        shared.outbox.reply_with_records(request_id, response, read)

    def _answer_parked(self) -> None:
        for replica, parked in list(self._parked.items()):
            if self._has_news(replica, parked.request):
                self._answer_one_parked(replica)

    def _answer_one_parked(self, replica: ReplicaProgress) -> None:
        parked = self._parked.pop(replica)
        self._answer(parked.request_id, parked.request, replica)

    def _unpark(self, replica: ReplicaProgress) -> None:
        """A replica has one fetch at a time: an older one gets an empty answer, which the replica hardly waits for."""
        parked = self._parked.pop(replica, None)
        if parked is not None:
            log = self._shared.log
            answer = FetchMetadataResponse(
                self._shared.config.node_id, self.epoch, log.high_watermark, log.log_start_offset
            )
            self._shared.outbox.reply(parked.request_id, answer)

    def _send_begin_notices(self, now_ms: int) -> None:
        config = self._shared.config
        for voter in self.replicas.take_due_notices(now_ms):
            request = BeginQuorumEpochRequest(config.cluster_id, config.node_id, self.epoch, voter)
            self._shared.outbox.ask(voter, request)


def _size_bytes(values: Sequence[bytes]) -> int:
    return BATCH_OVERHEAD_BYTES + sum(map(len, values)) + RECORD_OVERHEAD_BYTES * len(values)
