"""Stories whose voters change: who draws them, what they come to, and what the oracle of the sets refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.image import EMPTY_IMAGE
from raft.voter_changes import AddVoter, NameDirectories, RemoveVoter
from raft.voters import NO_VOTERS, Voter, VoterSet
from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.mutants.voters import NEW_DISK, voting
from tests.simulation.cluster.plan import Fault, Kind
from tests.simulation.cluster.voters.drawn_voters import DROPPED, with_voters
from tests.simulation.cluster.voters.voter_plan import VoterPlan
from tests.simulation.cluster.voters.voter_sets import VoterSets
from tests.simulation.cluster.world import Outcome, World
from tests.support.amount import usually


def run(*faults: Fault, **more: object) -> Outcome:
    return World(voting(*faults, tellings=1, **more)[0]).run()  # type: ignore[arg-type]


def test_a_tenth_of_the_plans_have_such_voters_and_the_others_stay_as_they_were() -> None:
    plans = [draw_plan(seed) for seed in range(300)]
    drawn = [plan for plan in plans if plan.voter_changes is not None]
    assert 20 <= len(drawn) <= 40
    assert all(len(plan.voters) >= 3 and not DROPPED.intersection(f.kind for f in plan.faults) for plan in drawn)
    others = [with_voters(plan, share=1.0) for plan in plans[:100] if plan.voter_changes is None]
    assert {plan.voter_changes.begins_dynamic for plan in others if plan.voter_changes is not None} == {True, False}


def test_voters_come_and_go_beside_kills_and_one_seed_is_one_story() -> None:
    kills = Fault(1.0, Kind.KILL, 0, 1, 0.5, 0.5), Fault(2.0, Kind.POWER, 1, 0, 0.5, 0.5)
    first, *others = (run(*kills, pause_s=0.1) for _ in range(usually(1, long=2)))
    assert not first.failures
    assert all(other.digest == first.digest for other in others)
    assert first.moves["voters added"] > 2 < first.moves["voters removed"]


def test_a_quorum_that_begins_static_is_made_dynamic_and_changes_then() -> None:
    (plan,) = voting(tellings=1, pause_s=0.1)
    outcome = World(replace(plan, voter_changes=VoterPlan((), 0.1, 1.0))).run()
    assert not outcome.failures
    assert outcome.moves["voters made dynamic"] == 1 < outcome.moves["voters removed"]


def test_a_new_disk_of_a_voter_takes_its_place_by_a_removal_and_an_addition() -> None:
    world = World(voting(NEW_DISK, tellings=1, pause_s=0.8)[0])
    sets = world.invariants.quorum.sets
    before = sets.newest.find(2)
    assert not world.run().failures
    assert before is not None and not sets.has_disk(before) and not sets.newest.names(2, before.directory_id)


# -- the oracle --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sets() -> VoterSets:
    """A quorum before its start: voters 0, 1 and 2, and two controllers besides."""
    return World(voting(tellings=1)[0]).invariants.quorum.sets


def spare(sets: VoterSets, index: int) -> Voter:
    found = sets.voter_at(index)
    assert found is not None
    return found


def test_a_change_that_nobody_asked_for_is_found(sets: VoterSets) -> None:
    four = sets.newest.with_voter(spare(sets, 3))
    with pytest.raises(Violated, match="nobody asked"):
        sets.take_set(10, four)


def test_two_voters_more_at_once_are_found(sets: VoterSets) -> None:
    for index in (3, 4):
        sets.asked(AddVoter(spare(sets, index)))
    with pytest.raises(Violated, match="more than one"):
        sets.take_set(10, sets.newest.with_voter(spare(sets, 3)).with_voter(spare(sets, 4)))


def test_the_same_id_with_another_disk_is_another_voter(sets: VoterSets) -> None:
    known = sets.newest.voters[0]
    sets.asked(RemoveVoter(known.voter_id, known.directory_id or ""))
    other = sets.newest.without(0).with_voter(replace(known, directory_id="another-disk"))
    with pytest.raises(Violated, match="more than one"):
        sets.take_set(10, other)


def test_an_operator_who_was_told_what_is_not_so_is_heard(sets: VoterSets) -> None:
    asked = sets.asked(AddVoter(spare(sets, 3)))
    sets.extend([], 100)
    sets.confirm(asked, 10)
    assert len(sets.wrong) == 1
    sets.take_set(10, sets.newest.with_voter(spare(sets, 3)))
    sets.confirm(asked, 10)
    assert len(sets.wrong) == 1
    sets.confirm(asked, 100)  # which is not committed
    assert len(sets.wrong) == 2


def test_a_snapshot_names_the_voters_at_its_end(sets: VoterSets) -> None:
    first, added = sets.newest, spare(sets, 3)
    sets.asked(AddVoter(added))
    sets.take_set(2, first)
    sets.take_set(10, first.with_voter(added))
    for offset, voters in ((1, NO_VOTERS), (2, first), (9, first), (10, first.with_voter(added))):
        sets.snapshot("node-0", replace(EMPTY_IMAGE, offset=offset, voters=voters))
    for offset, voters in ((2, NO_VOTERS), (9, first.with_voter(added)), (10, first)):
        with pytest.raises(Violated, match="names the voters"):
            sets.snapshot("node-0", replace(EMPTY_IMAGE, offset=offset, voters=voters))


def test_a_static_quorum_is_followed_by_the_same_voters_with_their_disks(sets: VoterSets) -> None:
    disks = sets.newest
    sets.sets[0] = VoterSet(tuple(Voter(index) for index in range(3)))
    sets.asked(NameDirectories())
    with pytest.raises(Violated, match="nobody asked"):
        sets.take_set(10, disks.without(1))
    sets.sets[1:], sets.offsets[1:] = [], []
    sets.take_set(10, disks)
    assert sets.newest is disks
