"""The quorum in one value, for `DescribeQuorum` and metrics, and in words: read from a core, changes nothing."""

from __future__ import annotations

from dataclasses import replace

from penstock.types import NO_OFFSET
from raft.core import RaftCore
from raft.progress import ReplicaProgress
from raft.quorum_state import Forgotten
from raft.statistics import QuorumDescription, ReplicaDescription
from raft.voters import Voter


def describe(core: RaftCore, now_ms: int) -> QuorumDescription:
    """Describes the quorum. The leader knows the progress of all nodes; another node knows its own, and the ids of the
    others."""
    own = replace(_own(core, now_ms), directory_id=core.config.directory_id, supports=core.config.supports)
    known: dict[int, ReplicaDescription] = {}
    observers: tuple[ReplicaDescription, ...] = ()
    if core.leadership is not None:
        known = {replica.replica_id: _describe(replica, now_ms) for replica in core.leadership.replicas.voters()}
        observers = tuple(_describe(replica, now_ms) for replica in core.leadership.replicas.observers())
    if core.voters.names(own.replica_id, own.directory_id):
        known[own.replica_id] = own
    else:
        observers = (*observers, own)
    voters = tuple(_of_voter(voter, known.get(voter.voter_id)) for voter in core.voters.voters)
    return QuorumDescription(
        core.leader_id, core.epoch, core.high_watermark, voters, observers, is_dynamic=core.voters.is_dynamic
    )


def promises_text(core: RaftCore) -> str:
    """Says that this voter takes part in elections, or what it waits for."""
    if core.forgotten is Forgotten.NOTHING:
        return "it takes part in the quorum"
    if core.forgotten is Forgotten.VOTES:
        waits = f"voters {sorted(core.unheard_voters)} have told it their epochs"
    else:
        waits = "it has fetched what a leader has that the other voters elect"
    return (
        f"it has forgotten what it promised ({core.forgotten.value}), and neither votes nor leads until {waits}; if "
        "there is no leader, too many voters lost their state: see `A quorum that cannot elect` in "
        "docs/data-directory.md"
    )


def contact_ms_ago(core: RaftCore, now_ms: int) -> int:
    """The time for which this node has not known that the quorum works; a leader without other voters always knows."""
    if core.leadership is not None and core.voters.is_only_voter(core.config.node_id):
        return 0
    return max(0, now_ms - core.statistics().last_contact_ms)


def quorum_silent_ms(core: RaftCore, now_ms: int) -> int:
    """The earliest moment at which another leader may have been elected, as the time since then. On a leader only."""
    return now_ms if core.leadership is None else max(0, now_ms - core.leadership.replicas.quorum_heard_ms(now_ms))


def _of_voter(voter: Voter, known: ReplicaDescription | None) -> ReplicaDescription:
    """A voter as the set describes it, with what is known of its progress."""
    found = known or ReplicaDescription(voter.voter_id, NO_OFFSET, None, None)
    return replace(found, directory_id=voter.directory_id or found.directory_id, endpoints=voter.endpoints)


def _own(core: RaftCore, now_ms: int) -> ReplicaDescription:
    return ReplicaDescription(core.config.node_id, core.log_end_offset, *_own_times(core, now_ms))


def _own_times(core: RaftCore, now_ms: int) -> tuple[int | None, int | None]:
    if core.leadership is not None:
        return 0, 0
    return _ago(core.last_fetch_ms, now_ms), None


def _describe(replica: ReplicaProgress, now_ms: int) -> ReplicaDescription:
    return ReplicaDescription(
        replica.replica_id,
        replica.acked_offset,
        _ago(replica.last_fetch_ms, now_ms),
        _ago(replica.last_caught_up_ms, now_ms),
        replica.directory_id,
        supports=replica.supports,
    )


def _ago(at_ms: int | None, now_ms: int) -> int | None:
    return None if at_ms is None else max(0, now_ms - at_ms)
