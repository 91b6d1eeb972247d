"""The assignors' promises, on drawn groups: complete, balanced, sticky, and only for those who subscribe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from broker.groups.consumer.assignors.problem import AssignedTopic, Assignor, SubscribedMember, Topics
from broker.groups.consumer.assignors.ranges import ranges
from broker.groups.consumer.assignors.uniform import uniform
from broker.groups.consumer.member import Assignment

SEEDS = range(60)


def topics_of(**partitions: int) -> dict[str, AssignedTopic]:
    return {name: AssignedTopic(name, count) for name, count in partitions.items()}


def members_of(
    count: int, topic_ids: frozenset[str], targets: Mapping[str, Assignment] | None = None
) -> list[SubscribedMember]:
    found = targets or {}
    return [
        SubscribedMember(f"m{number}", None, None, topic_ids, found.get(f"m{number}", {})) for number in range(count)
    ]


def drawn(seed: int, alike: bool) -> tuple[list[SubscribedMember], dict[str, AssignedTopic]]:
    """A group whose members have something already: some of it gone, some of it claimed by two."""
    draw = Random(seed)
    topics = topics_of(**{f"t{number}": draw.randint(1, 12) for number in range(draw.randint(1, 6))})
    names = sorted(topics)
    everything = frozenset(draw.sample(names, draw.randint(1, len(names))))
    members = []
    for number in range(draw.randint(1, 9)):
        wants = everything if alike else frozenset(draw.sample(names, draw.randint(0, len(names))))
        had: dict[str, frozenset[int]] = {}
        for name in [*names, "gone"]:
            if draw.random() < 0.5:
                had[name] = frozenset(draw.sample(range(14), draw.randint(1, 6)))
        members.append(SubscribedMember(f"m{number}", draw.choice([None, f"i{number}"]), None, wants, had))
    return members, topics


def check(members: Sequence[SubscribedMember], topics: Topics, found: Mapping[str, Assignment]) -> None:
    """Every partition that somebody subscribes to belongs to one that does."""
    assert found.keys() == {member.member_id for member in members}
    given = [(topic_id, one) for assignment in found.values() for topic_id, some in assignment.items() for one in some]
    wanted = {topic_id for member in members for topic_id in member.topic_ids}
    assert sorted(given) == sorted((name, one) for name in wanted for one in range(topics[name].partitions))
    for member in members:
        assert found[member.member_id].keys() <= member.topic_ids
        assert all(found[member.member_id].values())


def counts_of(found: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, assignment.values())) for member_id, assignment in found.items()}


def kept(members: Sequence[SubscribedMember], found: Mapping[str, Assignment]) -> int:
    return sum(
        len(found[member.member_id].get(topic_id, frozenset()) & partitions)
        for member in members
        for topic_id, partitions in member.target.items()
    )


@pytest.mark.parametrize("assignor", [uniform, ranges])
@pytest.mark.parametrize("alike", [True, False])
def test_every_partition_goes_to_one_subscriber(assignor: Assignor, alike: bool) -> None:
    for seed in SEEDS:
        members, topics = drawn(seed, alike)
        check(members, topics, assignor(members, topics))


def test_members_that_subscribe_alike_differ_by_one_and_move_as_little_as_can_be() -> None:
    for seed in SEEDS:
        members, topics = drawn(seed, alike=True)
        found = uniform(members, topics)
        counts = sorted(counts_of(found).values())
        assert counts[-1] - counts[0] <= 1
        # Once everybody has what it has alone: the most that can stay is known.
        settled = [replace(member, target=found[member.member_id]) for member in members]
        assert uniform(settled, topics) == found, "nothing moves where nothing changed"
        for others in (settled[1:], [*settled, SubscribedMember("new", None, None, members[0].topic_ids, {})]):
            if not others:
                continue
            again = uniform(others, topics)
            check(others, topics, again)
            total = sum(topics[name].partitions for name in members[0].topic_ids)
            quota, extras = divmod(total, len(others))
            had = sorted((sum(map(len, member.target.values())) for member in others), reverse=True)
            most = sum(min(count, quota + (place < extras)) for place, count in enumerate(had))
            assert kept(others, again) == most


def test_members_that_subscribe_differently_are_as_even_as_single_moves_make_them() -> None:
    for seed in SEEDS:
        members, topics = drawn(seed, alike=False)
        found = uniform(members, topics)
        counts = counts_of(found)
        for full in members:
            for topic_id in found[full.member_id]:
                for other in members:
                    if topic_id in other.topic_ids:
                        assert counts[full.member_id] - counts[other.member_id] <= 1
        settled = [replace(member, target=found[member.member_id]) for member in members]
        assert uniform(settled, topics) == found, "nothing moves where nothing changed"


def test_a_member_that_comes_gets_a_share_of_every_topic() -> None:
    """A topic with all the load does not stay with the members that came first."""
    topics = topics_of(busy=8, idle=8)
    ids = frozenset(topics)
    first = uniform(members_of(1, ids), topics)
    second = uniform(members_of(2, ids, first), topics)
    assert [len(second[one][name]) for one in ("m0", "m1") for name in topics] == [4, 4, 4, 4]
    fresh = uniform(members_of(4, ids), topics)
    assert all(len(fresh[f"m{number}"][name]) == 2 for number in range(4) for name in topics)


def test_a_partition_goes_to_a_rack_that_has_it_where_that_costs_nothing() -> None:
    racks = [frozenset({"a"}), frozenset({"a"}), frozenset({"b"}), frozenset({"b", "c"})]
    topics = {"t": AssignedTopic("t", 4, racks)}
    ids = frozenset(topics)
    near = [SubscribedMember(rack, None, rack, ids, {}) for rack in ("b", "a")]
    assert uniform(near, topics) == {"a": {"t": frozenset({0, 1})}, "b": {"t": frozenset({2, 3})}}
    has = [replace(near[0], target={"t": frozenset({0, 1})}), replace(near[1], target={"t": frozenset({2, 3})})]
    assert kept(has, uniform(has, topics)) == 4, "nothing moves for it"
    far = [SubscribedMember(rack, None, rack, ids, {}) for rack in ("x", "a", "b")]
    check(far, topics, uniform(far, topics))
    mixed = [*near, SubscribedMember("z", None, "a", frozenset(), {})]
    assert uniform(mixed, topics)["a"] == {"t": frozenset({0, 1})}


def test_ranges_follow_one_another_and_co_partitioned_topics_are_cut_alike() -> None:
    for seed in SEEDS:
        members, topics = drawn(seed, alike=True)
        found = ranges(members, topics)
        for assignment in found.values():
            for partitions in assignment.values():
                assert max(partitions) - min(partitions) == len(partitions) - 1
            by_size: dict[int, set[frozenset[int]]] = {}
            for name in members[0].topic_ids:
                by_size.setdefault(topics[name].partitions, set()).add(assignment.get(name, frozenset()))
            assert all(len(cuts) == 1 for cuts in by_size.values())


def test_ranges_give_static_members_the_same_after_a_restart() -> None:
    topics = topics_of(t=7)
    ids = frozenset(topics)

    def group(*ids_and_instances: tuple[str, str | None]) -> list[SubscribedMember]:
        return [SubscribedMember(one, instance, None, ids, {}) for one, instance in ids_and_instances]

    before = ranges(group(("z", "i1"), ("y", "i2"), ("a", None)), topics)
    after = ranges(group(("a", None), ("b", "i2"), ("x", "i1")), topics)
    assert (before["z"], before["y"], before["a"]) == (after["x"], after["b"], after["a"])


def test_nobody_and_nothing_are_assigned_too() -> None:
    topics = topics_of(t=3)
    for assignor in (uniform, ranges):
        assert assignor([], topics) == {}
        assert assignor(members_of(2, frozenset()), {}) == {"m0": {}, "m1": {}}
        check(members_of(5, frozenset({"t"})), topics, assignor(members_of(5, frozenset({"t"})), topics))
