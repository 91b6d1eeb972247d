"""Mistakes with replicas that move to other brokers (KIP-455), as far as a whole cluster shows them.

What the controller may decide is hunted in the random walk over its decisions (tests/property/metadata/).
"""

from __future__ import annotations

from broker.quorum.metadata_publisher import MetadataPublisher
from broker.replication.partition import Partition
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import OperatorPlan, Task

_ROLES = ((False, True), *((True, False),) * 5)
_MOVER = (OperatorPlan(Task.MOVE, "topic-0", 0.05),)
_MOVES = directed(roles=_ROLES, operators=_MOVER)

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
)
