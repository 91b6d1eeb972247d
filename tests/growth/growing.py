"""A cluster grows from three nodes to five and shrinks again, under clients: python -m tests.growth.

three nodes, a topic of ballast
two nodes join; every partition moves, throttled; meanwhile a destination is killed (-9) and comes back, then the
  active controller; a move is cancelled half-way
the cluster is balanced by its command
the nodes that joined are drained, stopped, and unregistered

It is wrong when an acked record is missing or stands in another way than promised, when replicas differ, or when a
write failed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock import TopicPartition
from tests.chaos import campaign as chaos
from tests.growth.campaign import PACED, PACED_PARTITIONS, tell
from tests.growth.latency import PacedProducer
from tests.growth.operator import Operator
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option

NODES, JOIN = 3, 2
BALLAST, BALLAST_PARTITIONS = "ballast", 8
BASELINE_S = 15.0


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    mib: int = option(128, "of records that lie there before anything moves")
    throttle_mib: int = option(8, "a second, of each broker, while replicas move")


@dataclass(slots=True)
class Growth:
    """The operator's work on a cluster that grows."""

    options: Options
    operator: Operator
    figures: dict[str, object] = field(default_factory=dict)
    topics: tuple[str, ...] = (BALLAST, PACED)

    def fill(self) -> None:
        """The ballast, and a topic for the paced producer."""
        settings = {"min.insync.replicas": 2}
        self.operator.admin.create_topic(BALLAST, BALLAST_PARTITIONS, NODES, {**settings, "segment.bytes": 16 << 20})
        self.operator.admin.create_topic(PACED, PACED_PARTITIONS, NODES, settings)
        self.operator.fill(BALLAST, BALLAST_PARTITIONS, (self.options.mib << 20), self.options.seed)

    def tell(self, paced: PacedProducer) -> None:
        """All of it."""
        time.sleep(BASELINE_S)
        self.operator.say("two nodes join")
        paced.phase("join")
        new = [self.operator.cluster.add_node() for _ in range(JOIN)]
        self.operator.throttle(self.options.throttle_mib << 20)
        self._move_ballast(new, paced)
        self._move_the_rest(new, paced)
        self.operator.throttle(None)
        paced.phase("balance")
        self.operator.say("balance")
        self.figures["balance"] = self.operator.penstock("cluster", "balance", "--json")
        for node in new:
            self._take_out(node, paced)
        self._check_spread()

    def _move_ballast(self, new: Sequence[int], paced: PacedProducer) -> None:
        """A move that nothing disturbs: how fast is it, and how long do acks take meanwhile?"""
        self.operator.say("the ballast moves, throttled")
        paced.phase("throttled move")
        moves = {
            TopicPartition(BALLAST, p.partition): [new[p.partition % JOIN], *p.replicas[1:]]
            for p in self.operator.admin.describe_topic(BALLAST).partitions
        }
        began = time.monotonic()
        self.operator.move(moves)
        self.operator.wait_moved()
        seconds = time.monotonic() - began
        by_follower = (self.options.mib << 20) / JOIN / seconds
        self.figures["throttle_bytes_per_second"] = self.options.throttle_mib << 20
        self.figures["move_bytes_per_second_of_a_follower"] = round(by_follower)
        self.figures["move_rate_by_throttle"] = round(by_follower / (self.options.throttle_mib << 20), 3)

    def _move_the_rest(self, new: Sequence[int], paced: PacedProducer) -> None:
        """Every partition of the others moves; nodes are killed meanwhile, and a move is cancelled."""
        self.operator.say("every other partition moves; a destination and the controller are killed")
        paced.phase("kills")
        first = self._rotated(BALLAST, new, by=1)
        self.operator.move(first)
        self.operator.wait_half_way(first)
        self.operator.move(dict.fromkeys(list(first)[: len(first) // 2]))
        self.operator.say("half of it is cancelled half-way")
        self._killed(new[0])
        self._killed(self.operator.cluster.controller())
        self.operator.wait_moved()
        for topic in (chaos.STEADY, PACED):
            moves = self._rotated(topic, new, by=1)
            self.operator.move(moves)
            self.operator.wait_moved()

    def _rotated(self, topic: str, new: Sequence[int], by: int) -> dict[TopicPartition, list[int]]:
        """Moves one replica of each partition from its broker to the next one that has none."""
        brokers = [*range(NODES), *new]
        moves = {}
        for p in self.operator.admin.describe_topic(topic).partitions:
            free = [broker for broker in brokers if broker not in p.replicas]
            moves[TopicPartition(topic, p.partition)] = [*p.replicas[1:], free[(p.partition + by) % len(free)]]
        return moves

    def _killed(self, node: int) -> None:
        self.operator.cluster.kill(node)
        time.sleep(3)
        self.operator.cluster.start(node)

    def _take_out(self, node: int, paced: PacedProducer) -> None:
        paced.phase("drain")
        self.operator.say(f"node {node} is drained, stopped and unregistered")
        began = time.monotonic()
        self.operator.penstock("brokers", "drain", str(node), "--json")
        self.figures[f"drain_of_{node}_s"] = round(time.monotonic() - began, 1)
        self.operator.cluster.stop(node)
        self.operator.penstock("brokers", "unregister", str(node))

    def _check_spread(self) -> None:
        registered = sorted(broker.node_id for broker in self.operator.admin.describe_cluster().brokers)
        if registered != list(range(NODES)):
            self.operator.wrong(f"registered are {registered}")
        for description in self.operator.admin.describe_topics():
            for p in description.partitions:
                if sorted(p.replicas) != list(range(NODES)) or sorted(p.isr) != list(range(NODES)):
                    self.operator.wrong(f"{description.name}-{p.partition}: replicas {p.replicas}, in sync {p.isr}")


def play(run: Run[Options]) -> None:
    tell(run, [{}] * NODES, lambda operator: Growth(run.options, operator))


CAMPAIGN = Campaign("tests.growth", __doc__, Options, play)
