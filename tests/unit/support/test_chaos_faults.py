"""The plan of a chaos run follows from its seed, and damages no more copies than the promise covers."""

from __future__ import annotations

from itertools import islice

from tests.chaos.faults import LOG_DIRS, NODES, Kind, plan


def test_a_seed_makes_the_same_plan_every_time_and_another_seed_another() -> None:
    one, again, other = (list(islice(plan(seed, tuple(Kind)), 50)) for seed in (7, 7, 8))
    assert one == again != other


def test_every_kind_comes_first_for_some_seed_of_a_short_range() -> None:
    assert {next(plan(seed, tuple(Kind))).kind for seed in range(len(Kind))} == set(Kind)


def test_only_the_kinds_that_were_asked_for_come() -> None:
    assert {fault.kind for fault in islice(plan(1, (Kind.KILL, Kind.HANG)), 100)} == {Kind.KILL, Kind.HANG}


def test_the_directory_of_the_metadata_log_is_never_damaged() -> None:
    faults = [fault for seed in range(20) for fault in islice(plan(seed, tuple(Kind)), 100)]
    assert {fault.log_dir for fault in faults} == set(range(1, LOG_DIRS))


def test_a_wipe_hits_one_node_and_a_hang_never_all() -> None:
    faults = [fault for seed in range(20) for fault in islice(plan(seed, tuple(Kind)), 100)]
    hit = {kind: {len(fault.nodes) for fault in faults if fault.kind is kind} for kind in Kind}
    assert (
        hit[Kind.WIPE] == {1}
        and hit[Kind.HANG] == {1, 2}
        and hit[Kind.KILL] == hit[Kind.STOP] == hit[Kind.POWER_CUT] == {1, 2, 3}
    )
    assert hit[Kind.RECREATE] == {0, 1}
    assert all(len(set(fault.nodes)) == len(fault.nodes) <= NODES for fault in faults)
