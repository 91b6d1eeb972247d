"""The state that the parts of one core share: configuration, state machine, log mirror, outbox, random source.

Handed to every part (election, following, leadership, rejoining) so that none of them needs to know the core or each
other.
"""

from __future__ import annotations

from dataclasses import field
from random import Random

from penstock.backoff import Backoff
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from raft.config import RaftConfig
from raft.decided_log import DecidedLog
from raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from raft.outbox import Outbox
from raft.quorum_state import QuorumState
from raft.validation import is_epoch_jump

NEVER_MS = 1 << 60
"""A deadline that never comes, for a node that only waits for others."""

_RESPONSE_OF: dict[type[Request], type[Response]] = {
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    FetchMetadataRequest: FetchMetadataResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
}


@dataclass(slots=True)
class Counters:
    """Monotonic counts, read by `RaftCore.statistics`."""

    pre_vote_rounds: int = 0
    elections: int = 0
    elections_won: int = 0
    resignations: int = 0
    truncations: int = 0
    fetches_answered: int = 0
    requests_rejected: int = 0
    epoch_jumps_refused: int = 0
    answers_dropped: int = 0
    answers_malformed: int = 0
    snapshots_installed: int = 0
    snapshots_refused: int = 0
    """The snapshots that were fetched, and found damaged."""
    acks_lost: int = 0


@dataclass(slots=True)
class Contact:
    """When this node last knew that the quorum works: as the leader, when a majority had fetched; elsewhere, when the
    leader had answered. At first, the start of the node."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Shared:
    """The workbench of one core."""

    config: RaftConfig
    quorum: QuorumState
    log: DecidedLog
    outbox: Outbox
    random: Random
    contact: Contact
    counters: Counters = field(default_factory=Counters)

    def refuse(self, request_id: int, request: Request, error: type[ApiError], why: str) -> None:
        """Answer with an error and with what this node knows of leader and epoch."""
        self.counters.requests_rejected += 1
        self.counters.epoch_jumps_refused += is_epoch_jump(request, self.quorum.epoch)
        self.outbox.reply(request_id, self.refusal(request, error, why))

    def refusal(self, request: Request, error: type[ApiError], why: str) -> Response:
        quorum = self.quorum
        return _RESPONSE_OF[type(request)](
            leader_id=quorum.leader_id, leader_epoch=quorum.epoch, error_code=error.code, error_message=why
        )

    def ask_for_vote(self, voter: int, *, pre_vote: bool) -> None:
        """Asks for the voter's vote in the present epoch, for this node with its present log."""
        config, epoch, log = self.config, self.quorum.epoch, self.log
        asked = self.quorum.voters.find(voter)
        request = VoteRequest(
            config.cluster_id,
            epoch,
            config.node_id,
            voter,
            log.last_epoch,
            log.log_end_offset,
            pre_vote,
            self.quorum.own_directory_id,
            (asked.directory_id if asked else None) or "",
        )
        self.outbox.ask(voter, request)

    def backoff_ms(self, failures: int) -> int:
        """The wait after this many failures in a row, by the configured back-off."""
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, self.random).wait_ms(failures)
