"""Mistakes with replicas that move (KIP-455) and brokers that are forgotten (KIP-631), as a whole cluster shows them.

What the controller may decide is hunted in the random walk over its decisions (tests/property/metadata/).
"""

from __future__ import annotations

from broker.apis.fetch_session import FetchSession
from broker.quorum.metadata_publisher import MetadataPublisher
from broker.replication.leader.leader_state import LeaderState
from broker.replication.partition import Partition
from metadata.controller import reassignments, unregistration
from metadata.controller.balance.replica_balance import ReplicaBalance
from metadata.controller.balance.replica_counts import ReplicaCounts
from metadata.controller.state import ControllerState
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import OperatorPlan, Task, TopicPlan

_ROLES = ((False, True), *((True, False),) * 5)
_MOVER = (OperatorPlan(Task.MOVE, "topic-0", 0.05),)
_MOVES = directed(roles=_ROLES, operators=_MOVER)
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
        (Edit(FetchSession._held_no_more, "self._partitions.release_held() and", "False and"),),
        stories=directed(
            roles=_ROLES,
            operators=(OperatorPlan(Task.MOVE, "topic-0", 0.5),),
            leader_replication_throttled_rate=4_000,
        ),
    ),
)
