"""A link that is cut holds its messages, and keeps their order when it carries again."""

from __future__ import annotations

import random

from tests.simulation.cluster.network import Network
from tests.simulation.cluster.scheduler import Scheduler


def test_what_is_sent_when_a_link_carries_again_comes_behind_what_the_link_had_held() -> None:
    scheduler = Scheduler(random.Random(1))
    network = Network(scheduler, lambda endpoint: "there")
    came: list[int] = []

    def send(number: int) -> None:
        network.carry("here", "there", scheduler.now_s, lambda: came.append(number))

    network.cut("here", "there")
    for number in range(50):
        send(number)
    scheduler.at(scheduler.now_s + 1.0, network.manager, lambda: network.mend("here", "there"))
    over: list[object] = []
    scheduler.at(scheduler.now_s + 1.0, network.manager, lambda: [send(number) for number in range(50, 100)])
    scheduler.at(scheduler.now_s + 5.0, network.manager, lambda: over.append(None))
    scheduler.run(over)
    assert sorted(came) == list(range(100))
    assert sorted(came[:50]) == list(range(50)), "what was held comes first"
