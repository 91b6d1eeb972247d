"""Which address is asked next: every one that is known within a bounded number of tries, in whatever state the client
is."""

from __future__ import annotations

import random

import pytest

from penstock.client.cluster.node_choice import NodeChoice
from penstock.types import Endpoint


def addresses(host: str, count: int) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(host, port) for port in range(1, count + 1))


def asked(choice: NodeChoice, live: tuple[Endpoint, ...]) -> Endpoint:
    found = choice.next(live, (), ())
    assert found is not None
    return found


def chance_state(choice: NodeChoice, live: tuple[Endpoint, ...], draw: random.Random) -> None:
    """Whatever a client may have met before: answers, misses, turns."""
    for _ in range(draw.randrange(40)):
        match draw.randrange(3):
            case 0:
                choice.turn(live)
            case 1:
                choice.missed(asked(choice, live), live)
            case _:
                choice.answered(asked(choice, live))


@pytest.mark.parametrize("brokers", range(7))
@pytest.mark.parametrize("bootstrap", range(1, 7))
def test_while_every_address_misses_each_is_asked_in_twice_as_many_tries(brokers: int, bootstrap: int) -> None:
    live, boot = addresses("old", brokers), addresses("boot", bootstrap)
    for seed in range(200):
        draw = random.Random(seed)
        choice = NodeChoice(boot)
        chance_state(choice, live, draw)
        met = set()
        for _ in range(2 * (brokers + bootstrap)):
            address = asked(choice, live)
            met.add(address)
            choice.missed(address, live)
            if draw.random() < 0.3:
                choice.turn(live)  # another refresh begins
        assert met == {*live, *boot}, f"seed {seed}"


def test_an_address_that_answers_and_knows_nothing_new_does_not_keep_the_bootstrap_from_being_asked() -> None:
    """Two of three brokers have moved; the third is cut off from them, and answers."""
    live, boot = addresses("old", 3), addresses("boot", 2)
    choice = NodeChoice(boot)
    met = []
    for _ in range(20):
        choice.turn(live)
        while (address := asked(choice, live)) != live[0]:
            met.append(address)
            choice.missed(address, live)
        choice.answered(address)
    assert {*boot} <= {*met[:12]}


def test_brokers_that_answer_are_asked_alone_and_one_after_another_only_by_turns() -> None:
    live, boot = addresses("old", 3), addresses("boot", 2)
    choice = NodeChoice(boot)
    met = []
    for _ in range(3):
        assert asked(choice, live) == live[0]
        choice.answered(live[0])
    for _ in range(6):
        choice.turn(live)
        met.append(asked(choice, live))
        choice.answered(met[-1])
    assert met == [live[1], live[2], live[0], live[1], live[2], live[0]]


def test_one_miss_of_three_brokers_is_no_reason_for_the_bootstrap() -> None:
    live, boot = addresses("old", 3), addresses("boot", 1)
    choice = NodeChoice(boot)
    choice.missed(asked(choice, live), live)
    assert choice.candidates(live) == live
    assert asked(choice, live) == live[1]


def test_what_may_hang_is_asked_only_where_nothing_else_is_left() -> None:
    live = addresses("old", 2)
    choice = NodeChoice(live)
    assert choice.next(live, (), live[:1]) == live[1]
    assert choice.next(live, live[1:], live[:1]) == live[0]
    assert choice.next(live, live, ()) is None


def test_addresses_that_no_broker_has_any_more_are_forgotten() -> None:
    choice = NodeChoice(addresses("boot", 1))
    for generation in range(1_000):
        live = addresses(f"pod-{generation}", 3)
        choice.missed(asked(choice, live), live)
    assert len(choice._passed) <= 4
