"""One group of a simulated cluster: its members, and when it is at rest and has done its work."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster.groups.bookkeeper import Bookkeeper
from tests.simulation.cluster.groups.classic_member import ClassicMember
from tests.simulation.cluster.groups.consumer_member import ConsumerMember
from tests.simulation.cluster.groups.oracle import GroupOracle, Spot
from tests.simulation.cluster.groups.our_member import OurMember
from tests.simulation.cluster.plan import GroupPlan, MemberKind

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

MEMBERS: dict[MemberKind, type[ConsumerMember] | type[ClassicMember] | type[OurMember] | type[Bookkeeper]] = {
    MemberKind.CONSUMER: ConsumerMember,
    MemberKind.CLASSIC: ClassicMember,
    MemberKind.OURS: OurMember,
    MemberKind.BOOKKEEPER: Bookkeeper,
}


class Group:
    """See the module."""

    def __init__(self, clients: Clients, plan: GroupPlan) -> None:
        self.clients, self.plan = clients, plan
        self.oracle = GroupOracle(
            plan.name,
            lambda: clients.network.scheduler.now_s,
            clients.ledger.report,
            may_expire=clients.may_forget_offsets,
            reads_all=len(plan.topics) == 1 or plan.members[0].kind is not MemberKind.CONSUMER,
        )
        self._members = [MEMBERS[each.kind](self, number, each) for number, each in enumerate(plan.members)]

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [member.work() for member in self._members]

    def unrest(self) -> str:
        """Why the group is not stable, with all of its members; "" when it is."""
        if self.plan.members[0].kind is MemberKind.BOOKKEEPER:
            return ""
        found = self.oracle.unrest(self._spots(), is_even=self.plan.is_even)
        return f"{self.plan.name}: {found}" if found else ""

    def _spots(self) -> list[Spot]:
        ids = self.clients.topic_ids
        return [Spot(ids[topic], tp.partition) for topic in self.plan.topics for tp in self.clients.partitions(topic)]

    @property
    def is_done(self) -> bool:
        """Everything that was written is processed."""
        ends = self.clients.ends
        if ends is None:
            return False
        ids = self.clients.topic_ids
        mine = ((Spot(ids[tp.topic], tp.partition), end) for tp, end in ends.items() if tp.topic in self.plan.topics)
        return all(self.oracle.reached(spot) >= end for spot, end in mine)

    def __repr__(self) -> str:
        return f"Group({self.plan.name})"
