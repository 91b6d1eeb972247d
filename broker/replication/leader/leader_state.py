"""The leader's state of one partition in one leader epoch: its followers, its ISR, and what follows from them.

Pure: it takes fetches, appends and answers with `now_ms`, and returns how far the high watermark may rise and which ISR
is wanted. partition.py uses the log, alter_partition.py sends.

Safety, in the order in which it is obeyed:
- a follower's fetch offset counts, because a follower fetches at N only AFTER everything below N is durable on it
  (with flush.policy=os, here and below: in its page cache);
- the leader itself counts only up to its own flushed offset;
- the high watermark is the smallest of these over the *maximal* ISR (committed plus pending), so neither a shrink nor
  an expansion that is still under way can expose records early (KIP-497);
- below `min.insync.replicas`, and while the partition has an ELR, the high watermark stands still (KIP-966). The
  second alone is what keeps the ELR true (ADR 0017): the controller knows another `min.insync.replicas` for a while
  after a change, or has another default;
- the low watermark counts every replica that lives or may be elected, so that nothing below it can come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from metadata.registrations import PartitionRegistration
from penstock.lazy_dataclass import dataclass
from penstock.messages.nodes.partitions import IsrMember
from penstock.types import NO_EPOCH, NO_OFFSET


class ReplicaPosition(NamedTuple):
    """A follower's log by its fetch: its durable end, the epoch of the record before, and its durable start."""

    offset: int
    epoch: int
    log_start_offset: int = NO_OFFSET


@dataclass(slots=True)
class FollowerProgress:
    """One follower as its leader sees it. Both offsets are durable there; -1 before the first fetch."""

    broker_id: int
    broker_epoch: int = -1
    log_end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    last_fetch_ms: int = 0
    last_fetch_leader_end_offset: int = NO_OFFSET
    last_caught_up_ms: int = 0


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """A change of the ISR that the controller has not committed yet."""

    members: tuple[IsrMember, ...]
    partition_epoch: int

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(member.broker_id for member in self.members)


@dataclass(slots=True)
class LeaderState:
    """The leader's view for one leader epoch; made anew for the next."""

    broker_id: int
    leader_epoch: int
    epoch_start_offset: int
    partition_epoch: int
    isr: frozenset[int]
    followers: dict[int, FollowerProgress]
    proposed: ProposedIsr | None = None
    elr: frozenset[int] = frozenset()
    adding: frozenset[int] = frozenset()
    registered_epochs: Mapping[int, int] = field(default_factory=dict)
    active_brokers: frozenset[int] = frozenset()
    isr_shrinks: int = field(default=0)
    isr_expands: int = field(default=0)
    has_readers_elsewhere: bool = False
    """A consumer was sent to a follower: followers are told at once how far the high watermark has risen."""

    @classmethod
    def begin(cls, broker_id: int, state: PartitionRegistration, log_end_offset: int, now_ms: int) -> LeaderState:
        """A new epoch: nothing is known of followers, so each has the full lag time before it may leave the ISR."""
        followers = {
            replica: FollowerProgress(replica, last_caught_up_ms=now_ms)
            for replica in state.replicas
            if replica != broker_id
        }
        return cls(
            broker_id,
            state.leader_epoch,
            log_end_offset,
            state.partition_epoch,
            frozenset(state.isr),
            followers,
            elr=frozenset(state.elr),
            adding=frozenset(state.adding_replicas),
        )

    def brokers_changed(self, registered_epochs: Mapping[int, int], active_brokers: frozenset[int]) -> None:
        """The registered brokers, and those of them that are in service, as the metadata has them now."""
        self.registered_epochs, self.active_brokers = registered_epochs, active_brokers

    def metadata_changed(self, state: PartitionRegistration, now_ms: int) -> None:
        """Takes another ISR, or other replicas, in the same epoch: a reassignment goes on (KIP-455). A proposal that
        names a replica which is gone cannot be committed any more."""
        self.commit_isr(state.isr, state.partition_epoch, state.elr)
        self.adding = frozenset(state.adding_replicas)
        self.followers = {
            replica: self.followers.get(replica) or FollowerProgress(replica, last_caught_up_ms=now_ms)
            for replica in state.replicas
            if replica != self.broker_id
        }
        if self.proposed is not None and not self.proposed.ids <= frozenset(state.replicas):
            self.proposed = None

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Invariant I12: contains the controller's ISR, whichever way a proposal under way ends."""
        return self.isr | self.proposed.ids if self.proposed else self.isr

    @property
    def certain_isr(self) -> frozenset[int]:
        """The members of the ISR that stay in it, whichever way a proposal under way ends."""
        return self.isr & self.proposed.ids if self.proposed else self.isr

    def is_moving(self, broker_id: int) -> bool:
        """True if a reassignment adds this replica, and it is not in sync yet."""
        return broker_id in self.adding and broker_id not in self.maximal_isr

    def may_commit(self, min_insync_replicas: int) -> bool:
        """True if the high watermark may rise: what it passes is safe with the ISR, and the ISR is large enough."""
        return not self.elr and len(self.isr) >= min_insync_replicas

    def too_few_in_sync(self, min_insync_replicas: int) -> str:
        """The reason why `may_commit` says no, for a message that names the partition before it."""
        least = f"min.insync.replicas is {min_insync_replicas}"
        if len(self.isr) >= min_insync_replicas:
            least = "which are too few by the controller's min.insync.replicas"
        return f"has {len(self.isr)} replicas in sync, {least}"

    def note_append(self, end_offset_before: int, now_ms: int) -> None:
        """The log grows now: a follower that had every record before was caught up until now."""
        for follower in self.followers.values():
            if follower.log_end_offset >= end_offset_before:
                follower.last_caught_up_ms = now_ms

    def note_fetch(
        self, broker_id: int, broker_epoch: int, fetch_offset: int, leader_end_offset: int, now_ms: int
    ) -> FollowerProgress | None:
        """A follower asked from `fetch_offset`; None when it is no replica of this partition."""
        follower = self.followers.get(broker_id)
        if follower is None:
            return None
        if fetch_offset >= leader_end_offset:
            follower.last_caught_up_ms = now_ms
        elif fetch_offset >= follower.last_fetch_leader_end_offset > NO_OFFSET:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.log_end_offset = fetch_offset
        follower.broker_epoch = broker_epoch
        follower.last_fetch_ms = now_ms
        follower.last_fetch_leader_end_offset = leader_end_offset
        return follower

    def committed_offset(self, own_flushed_offset: int, min_insync_replicas: int) -> int | None:
        """The offset below which every member of the maximal ISR has the log durably; None while it is not known."""
        members = self.maximal_isr
        if not self.may_commit(min_insync_replicas):
            return None
        offset = own_flushed_offset
        for broker_id in members:
            if broker_id != self.broker_id:
                follower = self.followers.get(broker_id)
                if follower is None or follower.log_end_offset < 0:
                    return None
                offset = min(offset, follower.log_end_offset)
        return offset

    def low_watermark(self, own_log_start_offset: int) -> int:
        """The offset below which no live replica has a record (KIP-107); -1 while a replica's log start is not known. A
        replica that is being added must have this log start, too, before it joins (isr_upkeep.py), but nobody waits for
        that."""
        counted = (self.active_brokers - self.adding) | self.maximal_isr | self.elr
        starts = (follower.log_start_offset for follower in self.followers.values() if follower.broker_id in counted)
        return min((own_log_start_offset, *starts))

    def propose_expand(self, broker_id: int, high_watermark: int, own_epoch: int, eligible: bool) -> ProposedIsr | None:
        """The ISR with `broker_id` added, if it caught up with the high watermark in this epoch."""
        follower = self.followers.get(broker_id)
        if self.proposed is not None or follower is None or broker_id in self.isr or not eligible:
            return None
        if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return self._propose(self.isr | {broker_id}, own_epoch)

    def propose_shrink(
        self, leader_end_offset: int, own_epoch: int, now_ms: int, lag_time_ms_max: int
    ) -> ProposedIsr | None:
        """The ISR without the followers that have not been caught up for `lag_time_ms_max`."""
        if self.proposed is not None:
            return None
        lagging = {
            broker_id
            for broker_id in self.isr
            if broker_id != self.broker_id and self._is_lagging(broker_id, leader_end_offset, now_ms, lag_time_ms_max)
        }
        return self._propose(self.isr - lagging, own_epoch) if lagging else None

    def _is_lagging(self, broker_id: int, leader_end_offset: int, now_ms: int, lag_time_ms_max: int) -> bool:
        follower = self.followers.get(broker_id)
        if follower is None:
            return True
        if follower.log_end_offset >= leader_end_offset:
            return False
        return now_ms - follower.last_caught_up_ms > lag_time_ms_max

    def _propose(self, members: frozenset[int], own_epoch: int) -> ProposedIsr:
        self.proposed = ProposedIsr(
            tuple(IsrMember(member, self._epoch_of(member, own_epoch)) for member in sorted(members)),
            self.partition_epoch,
        )
        return self.proposed

    def _epoch_of(self, member: int, own_epoch: int) -> int:
        """The broker epoch under which a member fetched. A member that has not fetched from this leader yet has the
        epoch of its registration: if it had restarted since, the controller would have dropped it from the ISR, and
        this proposal's partition epoch would be old."""
        if member == self.broker_id:
            return own_epoch
        fetched = self.followers[member].broker_epoch
        return fetched if fetched != NO_EPOCH else self.registered_epochs.get(member, NO_EPOCH)

    def commit_isr(self, isr: Iterable[int], partition_epoch: int, elr: Iterable[int] = ()) -> None:
        """The controller committed this ISR, with this ELR, at `partition_epoch`; older ones are ignored."""
        if partition_epoch < self.partition_epoch:
            return
        if partition_epoch > self.partition_epoch or self.proposed is None:
            new = frozenset(isr)
            self.isr_expands += len(new - self.isr)
            self.isr_shrinks += len(self.isr - new)
            self.isr, self.elr, self.partition_epoch, self.proposed = new, frozenset(elr), partition_epoch, None

    def reject_proposal(self, proposed: ProposedIsr) -> None:
        """The controller refused this proposal for good."""
        if self.proposed == proposed:
            self.proposed = None
