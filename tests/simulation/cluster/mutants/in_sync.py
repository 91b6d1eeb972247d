"""Mistakes about who is in sync: min.insync.replicas, proposals of leaders, which process a fetch is of, when a replica
is empty, and whom a deletion waits for."""

from __future__ import annotations

from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.replication.disk_failures import DiskFailures
from broker.replication.leader.alter_partition import AlterPartitionManager
from broker.replication.leader.follower_fetch import check_fetcher_epoch
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.leader.leader_state import LeaderState
from broker.replication.lost_replicas import LostReplicas
from broker.replication.partition import Partition
from metadata.controller import partitions
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.late_stories import (
    FIRST_FETCH_IS_LATE,
    LATE_ANSWER,
    LATE_FETCH,
    LATE_PROPOSAL_OF_THE_SECOND_REPLICA,
    REFUSED_PROPOSAL_THAT_IS_LATE,
    UNHEARD_ANSWER,
    UNHEARD_HIGH_WATERMARK,
    for_each_broker,
)
from tests.simulation.cluster.mutants.stories import directed, late
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task, TopicKind, TopicPlan

CRASHES = (Kind.KILL, Kind.POWER, Kind.POWER_ALL, Kind.STOP)
CUTS = (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)
LEFT_ALONE = directed(
    Fault(1.0, Kind.KILL, 1, 0, 2.0, 0.1, Aim.FOLLOWER),
    Fault(1.05, Kind.KILL, 1, 0, 2.5, 0.9, Aim.FOLLOWER),
    min_isr=2,
)
"""Both followers die, and come back."""
ROT_OUTSIDE_THE_ISR = for_each_broker(
    lambda broker: (
        Fault(2.0, Kind.ROT, broker, 0, 5.0, 0.3),
        Fault(2.01, Kind.LATE_MESSAGE, 1, 0, 1.5, late("AlterPartition"), Aim.LEADER),
    ),
    tellings=3,
    operators=(OperatorPlan(Task.RELOCATE, "topic-0", 0.05),),
    log_dirs=2,
    log_segment_bytes=4096,
    log_flush_offset_checkpoint_interval_ms=200,
    replica_fetch_max_bytes=1,
    sync_seconds=0.02,
)
"""A follower has caught up, and its leader's proposal to take it back is late. Meanwhile a move to another log dir
finds that the follower's log has rotted."""
DELETED_BEFORE_AN_ELECTION = tuple(
    story
    for leads, follows in ((1, 2), (2, 1))
    for story in directed(
        Fault(1.0, Kind.CUT, leads, follows, 2.0, 0.5),
        Fault(1.8, Kind.KILL, leads, 0, 4.0, 0.5),
        topics=(TopicPlan("topic-0", 1, 2, {}, TopicKind.TRIMMED),),
        operators=(OperatorPlan(Task.TRIM, "topic-0", 0.7),) * 4,
        roles=((False, True), (True, False), (True, False)),
        copies=2,
        replica_lag_time_max_ms=5_000,
    )
)
"""A leader dies that deletes records, and the other replica, which it cannot reach, leads next."""

IN_SYNC = (
    Mutant(
        "the high watermark rises below min.insync.replicas",
        "KIP-966",
        (
            Edit(LeaderState.committed_offset, "if not self.may_commit(min_insync_replicas):", "if False:"),
            Edit(Partition.must_have_enough, "if acks == -1 and not", "if 0 and not"),
        ),
        (*CRASHES, *CUTS),
        stories=LEFT_ALONE,
    ),
    Mutant(
        "min.insync.replicas counts the proposed ISR",
        "own fault list: not noticed by a test",
        (Edit(LeaderState.may_commit, "not self.elr and len(self.isr)", "len(self.maximal_isr)"),),
        (*CRASHES, *CUTS),
        stories=LATE_PROPOSAL_OF_THE_SECOND_REPLICA,
    ),
    Mutant(
        "a proposed ISR member does not count",
        "KIP-497",
        (Edit(LeaderState.maximal_isr, "self.isr | self.proposed.ids if self.proposed else self.isr", "self.isr"),),
        (*CUTS, *CRASHES, Kind.STORM),
    ),
    Mutant(
        "a proposed shrink counts at once",
        "KIP-497",
        (
            Edit(
                LeaderState.maximal_isr,
                "self.isr | self.proposed.ids if self.proposed else self.isr",
                "self.proposed.ids if self.proposed else self.isr",
            ),
        ),
        (*CUTS, Kind.SLOW_DISK),
    ),
    Mutant(
        "a refusal that is not final takes the proposal back",
        "seam: I12",
        (
            Edit(
                AlterPartitionManager._one_answered,
                "elif isinstance(result.error, IneligibleReplicaError):",
                "elif True:",
            ),
        ),
        (*CUTS, Kind.STORM),
        stories=UNHEARD_ANSWER,
        is_late=True,
    ),
    Mutant(
        "an ISR that was refused may be accepted later",
        "KIP-841: a late AlterPartition",
        (Edit(partitions.alter_partition, "if isinstance(error, IneligibleReplicaError):", "if False:"),),
        (*CUTS, Kind.STORM),
        stories=REFUSED_PROPOSAL_THAT_IS_LATE,
        is_late=True,
    ),
    Mutant(
        "an older ISR replaces a newer one",
        "seam: partition epochs",
        (
            Edit(LeaderState.commit_isr, "if partition_epoch < self.partition_epoch:", "if False:"),
            Edit(
                LeaderState.commit_isr,
                "if partition_epoch > self.partition_epoch or self.proposed is None:",
                "if True:",
            ),
        ),
        (*CUTS, *CRASHES, Kind.STORM),
        stories=LATE_ANSWER,
        is_late=True,
    ),
    Mutant(
        "a replica joins the ISR before it has caught up",
        "seam: ISR expansion",
        (
            Edit(
                LeaderState.propose_expand,
                "if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):",
                "if follower.log_end_offset < 0:",
            ),
        ),
        CRASHES,
    ),
    Mutant(
        "a replica joins the ISR at a high watermark of an older epoch",
        "seam: ISR expansion",
        (Edit(LeaderState.propose_expand, "max(high_watermark, self.epoch_start_offset)", "high_watermark"),),
        (*CRASHES, *CUTS),
        stories=UNHEARD_HIGH_WATERMARK,
    ),
    Mutant(
        "a leader forgets which process has fetched",
        "KIP-903",
        (
            Edit(
                IsrUpkeep.maybe_expand,
                "self.registered_epochs.get(replica_id) == follower.broker_epoch",
                "True",
            ),
            Edit(
                LeaderState._epoch_of,
                "fetched = self.followers[member].broker_epoch",
                "fetched = self.registered_epochs.get(member, NO_EPOCH)",
            ),
        ),
        CRASHES,
        stories=FIRST_FETCH_IS_LATE,
        is_late=True,
    ),
    Mutant(
        "fetches of an earlier process count",
        "Redpanda, why fsync: broker epoch",
        (Edit(check_fetcher_epoch, "if broker_epoch < known:", "if False:"),),
        (*CRASHES, Kind.STORM),
        stories=LATE_FETCH,
        is_late=True,
    ),
    Mutant(
        "fetches of an unknown process count",
        "attack a5: forged ack",
        (Edit(check_fetcher_epoch, "if broker_epoch > known:", "if False:"),),
        (*CRASHES, Kind.STORM),
        is_late=True,
    ),
    Mutant(
        "a damaged log is made anew, and its broker does not register anew",
        "KIP-903: an empty replica counts by its earlier fetches",
        (
            Edit(LostReplicas._is_registered_anew, "self.registered_epoch == self.broker_epoch > found_at", "True"),
            Edit(DiskFailures.leave_isrs, "self._on_replica_lost()", "pass"),
        ),
        (Kind.ROT,),
        stories=ROT_OUTSIDE_THE_ISR,
        is_late=True,
    ),
    Mutant(
        "a damaged log is made anew under the epoch of its earlier fetches",
        "KIP-903: an empty replica counts by its earlier fetches",
        (
            Edit(LostReplicas._is_registered_anew, "self.broker_epoch > found_at", "self.broker_epoch >= found_at"),
            Edit(BrokerLifecycle._register_as_successor, "self._ids.new_id()", "self._registration.incarnation_id"),
        ),
        (Kind.ROT,),
        stories=ROT_OUTSIDE_THE_ISR,
        is_late=True,
    ),
    Mutant(
        "a deletion is answered without the replicas that may be elected",
        "KIP-107",
        (Edit(LeaderState.low_watermark, "min((own_log_start_offset, *starts))", "own_log_start_offset"),),
        (*CUTS, *CRASHES),
        stories=DELETED_BEFORE_AN_ELECTION,
    ),
)
