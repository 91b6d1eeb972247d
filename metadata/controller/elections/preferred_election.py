"""The election of a partition's preferred leader, its first replica: what is in its way, and the change.

Not here: the order for it, by an operator (ordered_elections.py) or the leader balance (leader_balance.py).
"""

from __future__ import annotations

from metadata.controller.context import DecisionContext
from metadata.controller.elections.election import changed
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.errors import InvariantViolation


def preferred_obstacle(context: DecisionContext, partition: PartitionRegistration) -> str:
    """Why the preferred leader, the first replica, cannot be elected now; "" if it can."""
    preferred, state = partition.replicas[0], context.state
    if preferred not in partition.isr:
        return f"broker {preferred} is not in sync; the ISR is {list(partition.isr)}"
    if partition.log_lost:
        return f"broker {preferred} has lost its log"
    if not state.is_active(preferred):
        return f"broker {preferred} is fenced or shuts down"
    if not state.replica_is_online(preferred, partition):
        return f"the log dir of the replica on broker {preferred} is offline"
    return ""


def preferred_elected(context: DecisionContext, partition: PartitionRegistration) -> PartitionChangeRecord:
    """The change that gives the partition its preferred leader, where another leads and there is no obstacle."""
    change = changed(partition, context.min_isr(partition), leader_id=partition.replicas[0])
    if change is None:
        raise InvariantViolation(f"broker {partition.replicas[0]} is to lead {partition}, and nothing changes")
    return change
