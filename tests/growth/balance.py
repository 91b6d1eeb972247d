"""Six nodes, of which three have everything, are balanced by the command: python -m tests.growth.balance.

    six nodes in three racks; three topics of different sizes, whose replicas all are on the first three nodes and whose
      leaders all are on node 0; writers of every kind, a paced producer with acks=all, and readers that never rest
    `penstock cluster balance --throttle`: what each broker has, before and after
    a seventh node joins in a rack of its own, and the same command gives it its share
    the same command again has nothing to do

It is wrong when brokers are not even afterwards, when the command finds work in a balanced cluster, and where a run of
`python -m tests.growth` would be.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.balance.byte_counts import BYTES_TOLERANCE
from tests.growth.campaign import PACED, PACED_PARTITIONS, tell
from tests.growth.latency import PacedProducer
from tests.growth.operator import Operator
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.measures import counts
from tests.support.campaign.options import option

NODES, RACKS, SKEWED_NODES = 6, 3, 3
SHARES = {"heavy": 8, "middle": 4, "light": 1}
"""Shares of the data, of topics with PARTITIONS each."""
PARTITIONS = 6
GOALS = "replicas,leaders,bytes"
BASELINE_S = 10.0
COPIED = "penstock_reassignment_bytes_in"


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    mib: int = option(156, "of records, each on three nodes")
    throttle_mib: int = option(8, "a second, of each broker, while replicas move")


@dataclass(slots=True)
class Balance:
    """The operator's work on an unbalanced cluster."""

    options: Options
    operator: Operator
    figures: dict[str, object] = field(default_factory=dict)
    topics: tuple[str, ...] = (*SHARES, PACED)

    def fill(self) -> None:
        """The topics, as nobody should place them."""
        settings = {"min.insync.replicas": 2, "segment.bytes": 16 << 20}
        for topic, partitions in (*dict.fromkeys(SHARES, PARTITIONS).items(), (PACED, PACED_PARTITIONS)):
            placed = [list(range(SKEWED_NODES)) for _ in range(partitions)]
            self.operator.admin.create_topic(topic, config=settings, assignments=placed)
        for topic, share in SHARES.items():
            size = (self.options.mib << 20) * share // sum(SHARES.values())
            self.operator.fill(topic, PARTITIONS, size, self.options.seed)

    def tell(self, paced: PacedProducer) -> None:
        """All of it."""
        time.sleep(BASELINE_S)
        paced.phase("balance")
        self._balance("balance")
        paced.phase("balanced")
        self.operator.say("a seventh node joins")
        seventh = self.operator.cluster.add_node({"broker.rack": f"rack-{RACKS}"})
        paced.phase("balance with the seventh")
        self._balance("with_the_seventh")
        paced.phase("again")
        again = self._plan("again")
        if again and (again["reassignments"] or again["elections"]):
            self.operator.wrong(f"there is still something to do: {again['reassignments']}, {again['elections']}")
        time.sleep(BASELINE_S)
        if not dict(self._holdings())[seventh]["replicas"]:
            self.operator.wrong(f"node {seventh} has nothing")

    def _balance(self, name: str) -> None:
        """One run of the command under load, and what it must have brought."""
        self._show("before", self._holdings())
        copied, began = self._copied_bytes(), time.monotonic()
        plan = self._plan(name)
        seconds = time.monotonic() - began
        if plan is None:
            return
        found = self._holdings()
        self._show("after", found)
        self.figures[name] = {
            "partitions_moved": len(plan["reassignments"]),
            "replicas_moved": plan["replicas_moved"],
            "elections": len(plan["elections"]),
            "planned_mib": plan["bytes_to_copy"] >> 20,
            "copied_mib": (self._copied_bytes() - copied) >> 20,
            "seconds": round(seconds, 1),
            "before": _columns(plan["before"]["brokers"]),
            "after": _columns([{"broker_id": node, **has} for node, has in found]),
        }
        if not plan["reassignments"]:
            self.operator.wrong(f"{name}: nothing was moved")
        self._check_even(name, [has for _, has in found])
        moving = self.operator.admin.list_partition_reassignments()
        if moving:
            self.operator.wrong(f"{name}: the command has ended, and {len(moving)} partitions still move")
        self._check_partitions(name)

    def _plan(self, name: str) -> dict[str, Any] | None:
        """Balances, and returns the plan that the command prints."""
        self.operator.say(f"penstock cluster balance: {name}")
        options = ["--by", GOALS, "--throttle", str(self.options.throttle_mib << 20), "--json"]
        plan: dict[str, Any] | None = self.operator.penstock("cluster", "balance", *options)
        return plan

    def _check_even(self, name: str, brokers: Sequence[Mapping[str, int]]) -> None:
        for what in ("replicas", "leaders"):
            counts = [has[what] for has in brokers]
            if max(counts) - min(counts) > 1:
                self.operator.wrong(f"{name}: brokers have {counts} {what}")
        sizes = [has["size_bytes"] for has in brokers]
        mean = sum(sizes) / len(sizes)
        partition = (self.options.mib << 20) * SHARES["light"] / sum(SHARES.values()) / PARTITIONS
        if max(abs(size - mean) for size in sizes) > BYTES_TOLERANCE * mean + partition:
            self.operator.wrong(f"{name}: brokers have {sizes} bytes")

    def _check_partitions(self, name: str) -> None:
        """Every partition has three replicas in sync, each in a rack of its own."""
        racks = {broker.node_id: broker.rack for broker in self.operator.admin.describe_cluster().brokers}
        self.operator.cluster.wait_in_sync()
        for topic in self.operator.admin.describe_topics():
            for p in topic.partitions:
                if len(p.replicas) != RACKS or len({racks[node] for node in p.replicas}) != RACKS:
                    self.operator.wrong(f"{name}: {topic.name}-{p.partition} has the replicas {p.replicas}")

    def _holdings(self) -> list[tuple[int, dict[str, int]]]:
        """The present load of each broker: replicas and leaders by the metadata, bytes by its own log dirs."""
        log_dirs = self.operator.admin.describe_log_dirs()
        has = {node: {"replicas": 0, "leaders": 0, "size_bytes": 0} for node in sorted(log_dirs)}
        for topic in self.operator.admin.describe_topics():
            for p in topic.partitions:
                has[p.leader_id]["leaders"] += 1
                for node in p.replicas:
                    has[node]["replicas"] += 1
        for node, one in log_dirs.items():
            sizes = [r.size_bytes for log_dir in one.log_dirs for r in log_dir.replicas.values()]
            has[node]["size_bytes"] = sum(sizes)
        return list(has.items())

    def _show(self, when: str, holdings: Sequence[tuple[int, Mapping[str, int]]]) -> None:
        self.operator.say(f"{when + ':':8} broker  replicas  leaders     MiB")
        for node, has in holdings:
            size = has["size_bytes"] / 2**20
            self.operator.say(f"{'':8} {node:6}  {has['replicas']:8}  {has['leaders']:7}  {size:6.1f}")

    def _copied_bytes(self) -> int:
        """By the nodes' own counters, all nodes together."""
        return counts(self.operator.cluster, (COPIED,))[COPIED]


def _columns(brokers: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    return {
        "replicas": [has["replicas"] for has in brokers],
        "leaders": [has["leaders"] for has in brokers],
        "mib": [has["size_bytes"] >> 20 for has in brokers],
    }


def play(run: Run[Options]) -> None:
    nodes = [{"broker.rack": f"rack-{node % RACKS}"} for node in range(NODES)]
    tell(run, nodes, lambda operator: Balance(run.options, operator))


CAMPAIGN = Campaign("tests.growth.balance", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
