"""Frozen snapshots of a core and of a quorum, for metrics and for `penstock quorum describe`. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from raft.quorum_state import Forgotten, State
from raft.shared import Shared


@dataclass(frozen=True, slots=True)
class RaftStatistics:
    """One core: where it stands, and monotonic counts since the start of the process."""

    state: State
    forgotten: Forgotten
    epoch: int
    leader_id: int
    high_watermark: int
    log_end_offset: int
    flushed_offset: int
    last_contact_ms: int
    uncommitted_bytes: int
    pre_vote_rounds: int
    elections: int
    elections_won: int
    resignations: int
    truncations: int
    fetches_answered: int
    requests_rejected: int
    epoch_jumps_refused: int
    answers_dropped: int
    answers_malformed: int
    snapshots_installed: int
    snapshots_refused: int

    @classmethod
    def of(cls, shared: Shared, uncommitted_bytes: int) -> RaftStatistics:
        """The statistics of the core that has these parts."""
        quorum, log, counters = shared.quorum, shared.log, shared.counters
        return cls(
            quorum.state,
            quorum.forgotten,
            quorum.epoch,
            quorum.leader_id,
            log.high_watermark,
            log.log_end_offset,
            log.flushed_offset,
            shared.contact.at_ms,
            uncommitted_bytes,
            **{name: getattr(counters, name) for name in counters.__slots__},
        )


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One node of the quorum as the describing node knows it; -1 and None where it does not know."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms_ago: int | None
    last_caught_up_ms_ago: int | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as one node sees it; only the leader knows the progress of the others."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


@dataclass(frozen=True, slots=True)
class DriverStatistics:
    """The statistics of the core and of the driver around it."""

    core: RaftStatistics
    is_active: bool
    applied_offset: int
    proposals_waiting: int
    requests_waiting: int
    sends_in_flight: int
    flushes: int
    election_state_saves: int
    send_failures: int
