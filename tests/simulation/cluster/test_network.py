"""A link that is cut holds its messages in order, and a machine without power is not waited for once it is back."""

from __future__ import annotations

import asyncio
import random

from penstock.types import Endpoint
from tests.simulation.cluster.network import CLIENTS, Exchange, Network
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


def test_a_call_that_began_while_a_machine_had_no_power_ends_when_it_is_back_and_not_before() -> None:
    """A peer's system sends again what was not acknowledged, and a machine that knows nothing of it answers by a reset:
    nobody waits until an attempt to connect is given up."""
    scheduler = Scheduler(random.Random(1))
    network = Network(scheduler, lambda endpoint: "there")
    clients = scheduler.process(CLIENTS)
    loop = clients.loop = asyncio.new_event_loop()
    try:
        begun_s = scheduler.now_s
        network.power_cut("there", [])
        call = Exchange(network, clients, CLIENTS, Endpoint("127.0.0.1", 9092), "/Produce")
        over: list[object] = []
        ended: list[bool] = []
        scheduler.at(begun_s + 1.0, network.manager, lambda: ended.append(call.to_client.status is not None))
        scheduler.at(begun_s + 1.5, network.manager, lambda: network.power_back("there"))
        scheduler.at(begun_s + 2.0, network.manager, lambda: ended.append(call.to_client.status is not None))
        scheduler.at(begun_s + 2.0, network.manager, lambda: over.append(None))
        scheduler.run(over)
        assert ended == [False, True]
    finally:
        loop.close()
