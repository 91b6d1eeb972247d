"""Promises of the places of names: half for one party alone, some for the next one, and none is taken from a user."""

from __future__ import annotations

import random

from broker.network.name_places import NamePlaces

PLACES = 20


def test_one_party_alone_has_half_of_the_places_and_the_next_one_half_of_the_rest() -> None:
    places: NamePlaces[str] = NamePlaces(PLACES, lambda name: False)
    left: list[str] = []
    taken = [places.take(f"a-{number}", "a", left.append) for number in range(PLACES)]
    assert taken.count(True) == PLACES // 2
    taken = [places.take(f"b-{number}", "b", left.append) for number in range(PLACES)]
    assert taken.count(True) == PLACES // 4 and not left


def test_without_a_free_place_the_partys_own_oldest_idle_name_gives_way() -> None:
    idle = {"a-3", "a-5"}
    places: NamePlaces[str] = NamePlaces(PLACES, idle.__contains__)
    left: list[str] = []
    for number in range(PLACES // 2 + 2):
        assert places.take(f"a-{number}", "a", left.append)
    assert left == ["a-3", "a-5"]
    assert not places.take("one-more", "a", left.append)


def test_names_in_use_stay_and_the_limit_holds_whatever_comes() -> None:
    """Seeded: names become idle and used at random."""
    for seed in range(20):
        rng, idle = random.Random(seed), set[str]()
        places: NamePlaces[str] = NamePlaces(PLACES, idle.__contains__)
        for number in range(400):
            name, left = f"name-{number}", list[str]()
            is_taken = places.take(name, f"party-{rng.randint(0, 6)}", left.append)
            assert set(left) <= idle and len(places) <= PLACES and (name in places) == is_taken, seed
            idle -= set(left)
            if is_taken and rng.random() < 0.7:
                idle.add(name)
