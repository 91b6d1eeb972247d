"""Frozen snapshots of a core and of a quorum, for metrics and for `penstock quorum describe`. No behaviour."""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, measured
from penstock.types import ListenerEndpoint
from raft.quorum_state import Forgotten, State
from raft.shared import Shared


@measured
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
    voters: int = gauge("penstock_quorum_voters", "Voters of the quorum, as this node knows them.")
    uncommitted_voter_change: bool = gauge(
        "penstock_quorum_uncommitted_voter_change",
        "1 while the newest set of voters that this node knows is not committed, as far as it knows; else 0.",
    )
    pre_vote_rounds: int = counter(
        "penstock_quorum_pre_votes", "Rounds of pre-votes that this node asked for: it had heard of no leader."
    )
    elections: int = counter("penstock_quorum_elections", "Elections of the quorum in which this node stood.")
    elections_won: int = counter("penstock_quorum_elections_won", "Elections of the quorum that this node won.")
    resignations: int = counter("penstock_quorum_resignations", "How often this node resigned as the quorum's leader.")
    truncations: int = counter(
        "penstock_quorum_truncations", "How often the metadata log was truncated to the leader's."
    )
    snapshots_installed: int = counter(
        "penstock_quorum_snapshots_installed",
        "Snapshots of the metadata that came from the leader and replaced the log here.",
    )
    snapshots_refused: int = counter(
        "penstock_quorum_snapshots_refused", "Snapshots of the metadata that came from the leader and were damaged."
    )
    fetches_answered: int = counter("penstock_quorum_fetches_answered", "Fetches of other nodes from the metadata log.")
    requests_rejected: int = counter("penstock_quorum_requests_rejected", "Requests of the quorum that were refused.")
    epoch_jumps_refused: int = counter(
        "penstock_quorum_epoch_jumps_refused", "Requests refused for an epoch far above this node's."
    )
    answers_dropped: int = counter("penstock_quorum_answers_dropped", "Answers to requests that this node had dropped.")
    answers_malformed: int = counter("penstock_quorum_answers_malformed", "Malformed answers of other voters.")
    acks_lost: int = counter(
        "penstock_quorum_acks_lost",
        "Voters that came back without metadata records that they had acked to this node as the leader: their disk"
        " is an older copy, or lied about its flushes.",
    )

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
            len(quorum.voters),
            not quorum.history.is_committed,
            **{name: getattr(counters, name) for name in counters.__slots__},
        )


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One node of the quorum as the describing node knows it; -1 and None where it does not know."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms_ago: int | None
    last_caught_up_ms_ago: int | None
    directory_id: str = ""
    """The id of its metadata log dir; "" where that is not known."""
    endpoints: tuple[ListenerEndpoint, ...] = ()
    """The addresses at which other nodes reach a voter."""
    supports: str = ""
    """The features that it supports, as its last fetch told this leader."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as one node sees it; only the leader knows the progress of the others."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    is_dynamic: bool = False
    """Its voters are disks, and records may change them (KIP-853)."""


@measured
class DriverStatistics:
    """The statistics of the core and of the driver around it."""

    core: RaftStatistics
    is_active: bool
    applied_offset: int
    proposals_waiting: int
    requests_waiting: int
    sends_in_flight: int
    flushes: int = counter("penstock_quorum_flushes", "Flushes of the metadata log.")
    election_state_saves: int = counter(
        "penstock_quorum_election_states_saved", "How often the epoch and the vote were written."
    )
    send_failures: int = counter(
        "penstock_quorum_send_failures", "Messages to other voters that could not be sent or got no answer."
    )
