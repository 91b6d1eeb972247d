"""The balance of leaders elects what a look at every partition would elect, in any history of brokers and topics."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from metadata.controller.config import ControllerConfig
from metadata.registrations import PartitionRegistration
from penstock.errors import ApiError
from tests.support.amount import usually
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

BROKERS = range(1, 5)
STEPS = 60
INTERVAL_MS = 1_000


class History:
    """Brokers die, stop, come back and catch up; topics come and go; a round is due at each look."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.percentage = self.rng.choice((0, 10, 30, 60))
        config = ControllerConfig(
            CLUSTER_ID,
            SESSION_TIMEOUT_MS,
            leader_imbalance_percentage=self.percentage,
            leader_imbalance_check_interval_ms=INTERVAL_MS,
        )
        self.cluster = Cluster(len(BROKERS), config, seed)
        for name in "ab":
            self.cluster.create(name, 12, 3)
        self.outcomes: Counter[str] = Counter()

    @property
    def partitions(self) -> list[tuple[str, PartitionRegistration]]:
        return [(t.name, p) for t in self.cluster.image.topics_by_id.values() for p in t.partitions.values()]

    def step(self) -> None:
        actions = (self.die, self.stop, *(self.come_back,) * 4, *(self.catch_up,) * 4, self.make)
        try:
            self.rng.choice(actions)()
        except ApiError as error:
            self.outcomes[type(error).__name__] += 1
        self.look()

    def die(self) -> None:
        self.cluster.let_die(self.rng.choice(BROKERS))

    def stop(self) -> None:
        self.cluster.heartbeat(self.rng.choice(BROKERS), stop=True)

    def come_back(self) -> None:
        gone = [broker_id for broker_id in BROKERS if not self.cluster.image.brokers[broker_id].is_active]
        for broker_id in gone[:1]:
            self.cluster.let_die(broker_id)
            self.cluster.come_back(broker_id)
            self.cluster.heartbeat(broker_id)

    def catch_up(self) -> None:
        """Brings every replica in service of half of the partitions in sync."""
        for name, partition in self.partitions:
            if partition.has_leader and self.rng.random() < 0.5:
                brokers = self.cluster.image.brokers
                isr = tuple(r for r in partition.replicas if brokers[r].is_active or r == partition.leader_id)
                self.cluster.alter(partition.leader_id, self.cluster.proposal(name, isr, partition.partition))

    def make(self) -> None:
        name = self.rng.choice("abc")
        if name in self.cluster.image.topics_by_name:
            self.cluster.delete(name)
        else:
            self.cluster.create(name, self.rng.randint(1, 12), self.rng.randint(1, 3))

    def look(self) -> None:
        """A round elects all that it should, and nothing else."""
        cluster = self.cluster
        cluster.now_ms += INTERVAL_MS
        for broker_id, broker in sorted(cluster.image.brokers.items()):
            if not broker.fenced and not broker.in_controlled_shutdown:
                cluster.heartbeat(broker_id)
        before = {partition.key: partition for _, partition in self.partitions}
        wanted = self.wanted()
        if cluster.controller.next_deadline_ms() is None or cluster.tick():
            return
        after = {partition.key: partition for _, partition in self.partitions}
        assert {key for key in before if before[key] != after[key]} == wanted
        assert all(after[key].leader_id == after[key].replicas[0] in before[key].isr for key in wanted)
        elsewhere = sum(partition.leader_id != partition.replicas[0] for partition in after.values())
        assert cluster.controller.statistics().led_elsewhere == elsewhere
        self.outcomes["given back"] += len(wanted)
        self.outcomes["below the percentage"] += not wanted and any(
            p.has_leader and p.leader_id != p.replicas[0] in p.isr for p in after.values()
        )

    def wanted(self) -> set[object]:
        """By a look at every partition."""
        found: set[object] = set()
        for broker_id, broker in self.cluster.image.brokers.items():
            mine = [partition for _, partition in self.partitions if partition.replicas[0] == broker_id]
            elsewhere = [partition for partition in mine if partition.leader_id != broker_id]
            if mine and len(elsewhere) / len(mine) > self.percentage / 100 and broker.is_active:
                found |= {p.key for p in elsewhere if broker_id in p.isr and not p.log_lost}
        return found


@pytest.mark.parametrize("seed", range(usually(5, long=20)))
def test_a_round_elects_what_a_look_at_every_partition_would(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()


def test_histories_have_leaderships_that_go_back_and_some_that_stay() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(8):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
        outcomes += history.outcomes
    assert outcomes["given back"] > 50 and outcomes["below the percentage"] > 3, outcomes
