"""Mistakes with replicas that move (KIP-455) and brokers that are forgotten (KIP-631), as a whole cluster shows them.

What the controller may decide is hunted in the random walk over its decisions (tests/property/metadata/).
"""

from __future__ import annotations

from broker.apis.fetch_sessions.fetch_session import FetchSession
from broker.quorum.metadata_publisher import MetadataPublisher
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.leader.leader_state import LeaderState
from broker.replication.partition import Partition
from metadata.controller import partitions, reassignments
from metadata.controller.balance.replica_balance import ReplicaBalance
from metadata.controller.balance.replica_counts import ReplicaCounts
from metadata.controller.brokers import unregistration
from metadata.controller.state import ControllerState
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, late
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task, TopicPlan

_ROLES = ((False, True), *((True, False),) * 5)
_MOVER = (OperatorPlan(Task.MOVE, "topic-0", 0.05),)
_MOVES = directed(roles=_ROLES, operators=_MOVER)
_WITHOUT_TWO = directed(
    Fault(0.5, Kind.KILL, 1, 0, 8.5, 0.5, Aim.FOLLOWER),
    Fault(2.0, Kind.KILL, 1, 0, 7.0, 0.5, Aim.FOLLOWER),
    roles=_ROLES,
    operators=(OperatorPlan(Task.MOVE, "topic-0", 0.1),),
    min_isr=3,
    seconds=9.0,
    tellings=12,
)
"""Records are committed only with every replica in sync; two brokers are down, and moves go on to and from them."""
_LATE_ISRS = directed(
    *(
        Fault(0.2 + 0.2 * number, Kind.LATE_MESSAGE, 1, 0, 0.15, late("AlterPartition"), Aim.LEADER)
        for number in range(20)
    ),
    roles=_ROLES,
    operators=_MOVER,
)
"""A leader's changes of the ISR come late, and replicas go meanwhile."""
_UNEVEN = directed(
    sync_seconds=0.1,
    roles=_ROLES[:5],
    copies=2,
    topics=(TopicPlan("topic-0", 2, 2, {}),),
    auto_replica_balance_enable=True,
    auto_replica_balance_check_interval_seconds=1,
)
"""Two partitions of two replicas, of which one broker has two and another none."""
_FORGETTING = directed(roles=_ROLES, operators=(*_MOVER, OperatorPlan(Task.FORGET, "topic-0", 0.1)), tellings=6)

MOVES = (
    Mutant(
        "a replica that moved away is kept",
        "this project's own: a cancelled move's data stay a replica",
        (Edit(MetadataPublisher._apply_topic, "elif self._replicas.hosts(key):", "elif False:"),),
        stories=_MOVES,
    ),
    Mutant(
        "a leader does not hear of the replicas that come",
        "KIP-455",
        (
            Edit(
                Partition.become_leader,
                "self.leading.metadata_changed(state, now_ms)",
                "self.leading.commit_isr(state.isr, state.partition_epoch, state.elr)",
            ),
        ),
        stories=_MOVES,
    ),
    Mutant(
        "replicas never move by schedule",
        "seam: ticks",
        (Edit(ReplicaBalance.tick, "now_ms < due_ms", "True"),),
        stories=_UNEVEN,
    ),
    Mutant(
        "the balance counts a replica that moves where it was",
        "this project's own: what is under way is moved again",
        (
            Edit(ReplicaCounts.put, "partition.target_replicas", "partition.original_replicas"),
            Edit(ReplicaCounts.drop, "partition.target_replicas", "partition.original_replicas"),
        ),
        stories=_UNEVEN,
    ),
    Mutant(
        "a broker that has replicas out of sync is forgotten",
        "KIP-631",
        (Edit(unregistration._names_of_replicas, "in p.replicas", "in p.isr"),),
        stories=_FORGETTING,
    ),
    Mutant(
        "the controller goes on moving replicas to a broker that is forgotten",
        "KIP-631",
        (Edit(ControllerState.drop_broker, "del self.brokers[broker_id]", "pass"),),
        stories=_FORGETTING,
    ),
    Mutant(
        "a replica that was removed stays in sync",
        "KIP-455",
        (
            Edit(
                reassignments._change,
                "isr = tuple(member for member in partition.isr if member in wanted.all)",
                "isr = partition.isr",
            ),
        ),
        stories=_MOVES,
    ),
    Mutant(  # the first edit alone takes away only replicas that nobody counts
        "a drain drops a partition below min.insync.replicas",
        "KIP-455",
        (
            Edit(reassignments.completion, "staying < context.min_isr(partition)", "staying < 1"),
            Edit(reassignments._change, "if gone and len(isr) < max(min_isr, 1):", "if not isr:"),
        ),
        stories=_WITHOUT_TWO,
    ),
    Mutant(
        "a drain leaves a partition fewer replicas than min.insync.replicas",
        "KIP-455",
        (Edit(reassignments.begun, "len(target) < least", "False"),),
        stories=_WITHOUT_TWO,
    ),
    Mutant(
        "a cancelled move takes its copies away though the others are not in sync",
        "KIP-455",
        (Edit(reassignments._change, "if gone and len(isr) < max(min_isr, 1):", "if not isr:"),),
        stories=_WITHOUT_TWO,
    ),
    Mutant(
        "a cancelled move leaves the replicas in the order of its target",
        "KIP-455",
        (Edit(reassignments.begun, "wanted = replace(wanted, before=original)", "pass"),),
        stories=_MOVES,
    ),
    Mutant(
        "a move is complete before its copies are in sync",
        "KIP-455",
        (Edit(reassignments.completion, "not set(partition.adding_replicas) <= set(partition.isr) or ", ""),),
        stories=_MOVES,
    ),
    Mutant(
        "no leader epoch begins when replicas go",
        "KIP-455, KIP-320",
        (
            Edit(
                reassignments._change,
                "leader_id if has_dropped or leader_id != partition.leader_id",
                "leader_id if leader_id != partition.leader_id",
            ),
        ),
        stories=_MOVES,
    ),
    Mutant(
        "the copies of a cancelled move are replicas from then on",
        "this project's own: a cancelled move's data stay a replica",
        (
            Edit(
                reassignments._cancelled,
                "_Replicas(partition.original_replicas)",
                "_Replicas((*partition.original_replicas, *partition.adding_replicas))",
            ),
        ),
        stories=_MOVES,
    ),
    Mutant(
        "a leader goes on following a replica that was removed",
        "KIP-455",
        (
            Edit(
                Partition.become_leader,
                "self._lead(LeaderState.begin(self.broker_id, state, end, now_ms))",
                "known = self.leading.followers if self.leading is not None else {}\n"
                "        self._lead(LeaderState.begin(self.broker_id, state, end, now_ms))\n"
                "        self.leading.followers = {**known, **self.leading.followers}",
            ),
        ),
        stories=_MOVES,
    ),
    Mutant(
        "a leader goes on waiting for a replica that was removed",
        "KIP-455: a removed replica counts for the high watermark",
        (
            Edit(
                Partition.become_leader,
                "self._lead(LeaderState.begin(self.broker_id, state, end, now_ms))",
                "known = self.leading.isr if self.leading is not None else frozenset()\n"
                "        self._lead(LeaderState.begin(self.broker_id, state, end, now_ms))\n"
                "        self.leading.isr |= known",
            ),
        ),
        stories=_MOVES,
    ),
    Mutant(
        "an ISR that names a replica that went is accepted",
        "KIP-455: a proposal under way when replicas go",
        (
            Edit(partitions._check_epochs, "data.leader_epoch < partition.leader_epoch", "False"),
            Edit(partitions._check_epochs, "data.partition_epoch < partition.partition_epoch", "False"),
            Edit(partitions._check_isr, "or not set(ids) <= set(partition.replicas)", ""),
        ),
        stories=_LATE_ISRS,
    ),
    Mutant(
        "the throttle holds up a copy that is in sync, until its move is complete",
        "KIP-73: a throttle that starves the ISR",
        (Edit(LeaderState.is_moving, "and broker_id not in self.maximal_isr", ""),),
        stories=_MOVES,
    ),
    Mutant(
        "a follower's throttle holds up a replica that catches up after a restart",
        "KIP-73: a throttle that starves the ISR",
        (Edit(FetcherManager._is_moving, "and followed.partition.state.is_moving_to(self._config.broker_id)", ""),),
        stories=directed(Fault(0.5, Kind.KILL, 1, 0, 2.0, 0.5, Aim.FOLLOWER), follower_replication_throttled_rate=10),
    ),
    Mutant(
        "the throttle holds up replicas in sync",
        "KIP-73: a throttle that starves the ISR",
        (
            Edit(
                LeaderState.is_moving,
                "broker_id in self.adding and broker_id not in self.maximal_isr",
                "broker_id in self.followers",
            ),
        ),
        stories=directed(leader_replication_throttled_rate=10),
    ),
    Mutant(
        "a copy that the throttle holds is never released",
        "seam: timers",
        (Edit(FetchSession._held_no_more, "self.partitions.release_held() and", "False and"),),
        stories=directed(
            roles=_ROLES,
            operators=(OperatorPlan(Task.MOVE, "topic-0", 0.5),),
            leader_replication_throttled_rate=4_000,
        ),
    ),
)
