"""Mistakes that have lost data in such systems, each as a rule that the simulation must notice."""

from __future__ import annotations

from collections.abc import Mapping

from broker.replication.leader.isr_upkeep import check_fetcher_epoch
from broker.replication.leader.leader_state import ProposedIsr, ReplicaPosition
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock.types import EpochEndOffset, LeaderHint, OffsetAndEpoch
from tests.simulation.replication.world import Rules


class TruncatesToHighWatermark(Partition):
    """KIP-101: a follower cut its log at its high watermark, and was then elected."""

    def become_follower(self, state: PartitionRegistration, hint: LeaderHint) -> bool:
        is_new = super().become_follower(state, hint)
        if is_new:
            self.log.truncate_to(self.high_watermark)
        return is_new


class AcksBeforeFlush(Partition):
    """The leader counts what is only in its page cache."""

    def maybe_advance_high_watermark(self) -> bool:
        if self.leading is None:
            return False
        offset = self.leading.committed_offset(self.log.log_end_offset, self.min_insync_replicas)
        if offset is None or offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.acks_all.reached(offset)
        return True


class CountsDivergentTails(Partition):
    """A fetch counts as an acknowledgement before the histories were compared."""

    def note_follower_fetch(
        self, replica_id: int, broker_epoch: int, position: ReplicaPosition, leader_epoch: int, now_ms: int
    ) -> EpochEndOffset | None:
        leading = self.leader_state(leader_epoch)
        leading.note_fetch(replica_id, broker_epoch, position.offset, self.log.log_end_offset, now_ms)
        self.maybe_advance_high_watermark()
        return super().note_follower_fetch(replica_id, broker_epoch, position, leader_epoch, now_ms)


class ForgetsProposals(Partition):
    """A proposal whose answer was lost no longer counts towards the maximal ISR."""

    def maybe_advance_high_watermark(self) -> bool:
        if self.leading is not None and self.leading.proposed is not None:
            kept: ProposedIsr = self.leading.proposed
            self.leading.proposed = None
            moved = super().maybe_advance_high_watermark()
            self.leading.proposed = kept if self.leading is not None else None
            return moved
        return super().maybe_advance_high_watermark()


class IgnoresEpochs(Partition):
    """Followers are never told that their history is another one."""

    def diverging_epoch(self, position: OffsetAndEpoch) -> EpochEndOffset | None:
        return None


class CountsOnlyItself(Partition):
    """A deletion is answered as soon as the leader has it."""

    def low_watermark(self) -> int:
        return self.log.log_start_offset


def refuses_only_older_epochs(registered_epochs: Mapping[int, int], replica_id: int, broker_epoch: int) -> None:
    """A fetch under an epoch that no broker was given yet acknowledges: anybody can make one up."""
    check_fetcher_epoch(registered_epochs, replica_id, min(broker_epoch, registered_epochs[replica_id]))


MUTANTS: dict[str, Rules] = {
    "truncates to the high watermark (KIP-101)": Rules(TruncatesToHighWatermark),
    "leader acks before its flush": Rules(AcksBeforeFlush),
    "follower acknowledges before its flush": Rules(acknowledge_before_flush=True),
    "divergent tails acknowledge": Rules(CountsDivergentTails),
    "a lost proposal is forgotten": Rules(ForgetsProposals),
    "epochs are ignored": Rules(IgnoresEpochs),
    "deletions are counted without the replicas that may be elected": Rules(CountsOnlyItself),
    "a fetch under an unknown broker epoch acknowledges": Rules(check_epoch=refuses_only_older_epochs),
}
