"""The loop by hand while the group's coordinator is cut off from the nodes, and not from the program.

    python -m tests.exactly_once.deposed --rounds 20

In each round the coordinator of the group is cut off (tests/failover/network.py): another broker coordinates, and takes
commits, and the old one hears of nothing. The program goes on at once, and aborts every third transaction. A second
consumer, which has asked the old coordinator, asks again after each commit: it is told of no older offset. In the end
a reader of committed records finds every output once. Not here: members that die (campaign.py).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from penstock import Admin
from tests.exactly_once.hand_loop import BATCH, IN, OUT, Loop
from tests.failover.network import Network
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option

STEPS: Final = 4
"""Transactions in each round, one of them before the cut; one more is aborted."""
CONFIG: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 300,
    "controller.quorum.election.timeout.ms": 500,
}


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int = option(20, "cuts")


def play(run: Run[Options]) -> None:
    network = run.enter(Network(3))
    cluster = run.cluster(3, CONFIG, node_configs=network.node_configs, before_open=network.attach)
    with Admin(cluster.bootstrap) as admin:
        for topic in (IN, OUT):
            admin.create_topic(topic, 1, 3)
    loop = Loop(run, cluster.bootstrap, 1, is_member=False)
    for _ in range(run.options.rounds):
        loop.feed(STEPS * BATCH)
        loop.step()
        old = cluster.leader("__consumer_offsets")
        network.cut(old)
        for number in range(STEPS - 1):
            loop.step(aborts=number == 1)
        loop.drain()
        network.heal(old)
        cluster.wait_in_sync("__consumer_offsets", timeout_s=60)
    loop.judge()


CAMPAIGN = Campaign("tests.exactly_once.deposed", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
