"""Takes everything off a broker, round by round, until it has nothing left.

Moves to the broker that somebody else began are taken back first: each would be for nothing, and one to a broker that
is dead never ends. Moves off it are waited for. Not here: which replicas go where (penstock/balance/), and how they
move (performing.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.balance.planner import make_plan
from penstock.cli.moves.cluster_reading import read_cluster
from penstock.cli.moves.performing import perform
from penstock.cli.moves.waiting import wait_for
from penstock.cli.output import note
from penstock.errors import NoReassignmentInProgressError, PenstockError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from penstock.balance.plan import Plan
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import PartitionInfo
    from penstock.types import TopicPartition

ROUNDS_MAX = 10
"""How many rounds a drain takes before it gives up: where the cluster knows no cordon, topics that are created
meanwhile may place replicas on the broker."""


def drain_broker(admin: Admin, broker_id: int, plan: Plan) -> dict[TopicPartition, str]:
    """Drains the broker until it has no replica, or until partitions are refused: returns the reason for each.
    PenstockError if it gets more replicas all the time, or a move does not end."""
    for _ in range(ROUNDS_MAX):
        _take_back(admin, broker_id)
        performed = perform(admin, plan)
        if performed.refused:
            return performed.failed
        for _, why in sorted(performed.failed.items()):
            note(why)  # the broker may be empty for all that
        _take_back(admin, broker_id)
        moving = {tp for tp, info in admin.list_partition_reassignments().items() if broker_id in info.replicas}
        if moving:
            note(f"waiting for {len(moving)} partitions of broker {broker_id} that somebody else moves")
            wait_for(admin, moving)
        state = read_cluster(admin, [broker_id])
        left = [p for p in state.partitions if broker_id in p.replicas]
        if not left:
            note(f"broker {broker_id} has no replicas: stop it, and `penstock brokers unregister` forgets it")
            return {}
        note(
            f"broker {broker_id} has replicas of {len(left)} partitions that others placed or left there meanwhile, one"
            f" is {left[0].name}; again"
        )
        plan = make_plan(state, frozenset())
    raise PenstockError(
        f"broker {broker_id} still has replicas of {len(left)} partitions after {ROUNDS_MAX} rounds, one is"
        f" {left[0].name}: others place replicas there all the time. Stop that, and set"
        " auto.replica.balance.enable=false if it is on; then run the command again"
    )


def _take_back(admin: Admin, broker_id: int) -> None:
    """Ends the moves to the broker that go on. A move that may not be taken back now goes on, and is waited for."""
    moves = admin.list_partition_reassignments()
    wanted = {tp: _without(info, broker_id) for tp, info in moves.items() if broker_id in info.adding_replicas}
    results = admin.alter_partition_reassignments(wanted) if wanted else {}
    for tp, error in sorted(results.items()):
        target = wanted[tp]
        if error is None and target is None:
            note(f"{tp}: its move to broker {broker_id}, which is being drained, was cancelled")
        elif error is None:
            note(f"{tp}: its move goes on to the replicas {list(target or ())}, without broker {broker_id}")
        elif not isinstance(error, NoReassignmentInProgressError | UnknownTopicOrPartitionError):
            note(f"the move to broker {broker_id} goes on: {error}")


def _without(info: PartitionInfo, broker_id: int) -> tuple[int, ...] | None:
    """The other replicas that the move is to bring; None where they are fewer than the partition had."""
    had = len(info.replicas) - len(info.adding_replicas)
    others = tuple(id_ for id_ in info.replicas if id_ not in info.removing_replicas and id_ != broker_id)
    keeps_moving = set(info.adding_replicas) != {broker_id}
    return others if keeps_moving and len(others) >= had else None
