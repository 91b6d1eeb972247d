"""The state of an overload run's cluster: the leaders, the counts of its nodes, and their memory.

`ClusterState` is taken before and after; `changes` says what an overloaded cluster must not do. `Watch` looks once a
second in between, because an ISR may shrink and grow again, and memory may be given back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from penstock import Admin
from penstock.errors import PenstockError
from penstock.testing import Cluster
from tests.support.campaign.measures import counts, rss_mib

WATCH_S = 1.0
ELECTIONS = {
    "penstock_leader_elections": "partition leaders elected",
    "penstock_quorum_elections": "elections of the controller begun",
    "penstock_broker_sessions_expired": "brokers fenced",
    "penstock_broker_registrations_anew": "brokers registered anew",
}
SHRINKS, OVERLOADED = "penstock_isr_shrinks", "penstock_requests_refused"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """`leaders`: (topic, partition) -> (leader, leader epoch). `counts` are summed over the nodes."""

    leaders: dict[tuple[str, int], tuple[int, int]]
    quorum: tuple[int, int]
    """The controller and its epoch."""
    counts: Counter[str]
    pids: tuple[int, ...]

    @classmethod
    def of(cls, cluster: Cluster, admin: Admin) -> ClusterState:
        quorum = admin.describe_quorum()
        leaders = {
            (topic.name, p.partition): (p.leader_id, p.leader_epoch)
            for topic in admin.describe_topics()
            for p in topic.partitions
        }
        counted = counts(cluster, (*ELECTIONS, SHRINKS, OVERLOADED))
        pids = tuple(cluster.pid(node) for node in range(len(cluster)))
        return cls(leaders, (quorum.leader_id, quorum.leader_epoch), counted, pids)

    def changes(self, later: ClusterState) -> list[str]:
        """In words, each thing that happened and must not; empty when all is well."""
        found = []
        if later.quorum != self.quorum:
            found.append(f"the controller and its epoch were {self.quorum}, and are {later.quorum}")
        if later.pids != self.pids:
            found.append(f"a node's process ended: {self.pids}, then {later.pids}")
        moved = [name for name, leader in self.leaders.items() if later.leaders.get(name) != leader]
        if moved:
            was, now = self.leaders[moved[0]], later.leaders.get(moved[0])
            found.append(f"{len(moved)} partitions have another leader or epoch: {moved[0]} had {was}, has {now}")
        for name, words in ELECTIONS.items():
            if count := self.counted(later, name):
                found.append(f"{words}: {count}")
        return found

    def counted(self, later: ClusterState, name: str) -> int:
        """How much a counter grew."""
        return later.counts[name] - self.counts[name]


class Watch:
    """Looks at memory and ISRs, once a second beside the story."""

    def __init__(self, cluster: Cluster, admin: Admin) -> None:
        self._cluster, self._admin = cluster, admin
        self.rss_mib_max = [0] * len(cluster)
        self.isr_min = len(cluster)
        self.unanswered = 0
        """Looks at the metadata that ended with an error."""

    def look(self) -> None:
        for node in range(len(self._cluster)):
            self.rss_mib_max[node] = max(self.rss_mib_max[node], rss_mib(self._cluster.pid(node)))
        try:
            sizes = [len(p.isr) for topic in self._admin.describe_topics() for p in topic.partitions]
        except PenstockError:
            self.unanswered += 1
        else:
            self.isr_min = min(self.isr_min, *sizes)
