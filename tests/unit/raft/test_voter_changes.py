"""Changes of the voters: what is refused, what counts from when, and the histories that once lost records.

The wrong histories are played against the rule that prevents them, and once more with that rule away: then the stage
sees a committed record lose. test_simulation.py has drawn histories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.errors import (
    ApiError,
    DuplicateVoterError,
    InvalidRequestError,
    InvariantViolation,
    NotControllerError,
    RequestTimedOutError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from raft.driver.describe import describe
from raft.messages import SUPPORTS_MAX, FetchMetadataRequest
from raft.quorum_state import State
from raft.voter_changes import (
    AddVoter,
    NameDirectories,
    RemoveVoter,
    UpdateVoter,
    VoterChange,
)
from raft.voter_history import VoterHistory
from raft.voters import Voter, VoterSet
from tests.simulation.raft.voter_mutants import VOTER_PATCHES
from tests.support.raft_bench import CLUSTER, Bench
from tests.support.voters import voters_at
from tests.trace.raft.changing_stage import ChangingStage, disk, voter


def led(first: int = 3, joining: int = 2) -> tuple[ChangingStage, int]:
    """A stage with a leader that has committed, and everybody in contact."""
    stage = ChangingStage(first, joining)
    leader = stage.run_until_leader()
    stage.run_ms(1_000)
    return stage, leader


def refused(stage: ChangingStage, leader: int, change: VoterChange) -> ApiError:
    core = stage.actors[leader].core
    before = core.log_end_offset, core.voters
    with pytest.raises(ApiError) as caught:
        core.change_voters(change, stage.now_ms)
    assert (core.log_end_offset, core.voters) == before, "nothing was changed"
    return caught.value


def test_the_quorum_grows_from_one_to_five_and_shrinks_to_one() -> None:
    stage, leader = led(first=1, joining=4)
    for ids in ((1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)):
        stage.add(leader, ids[-1])
        stage.run_ms(200)
        assert {stage.voters_of(node_id) for node_id in stage.actors} == {ids}
    stage.cut(4)
    stage.cut(5)
    stage.propose(leader, b"with three of five")
    stage.run_ms(100)
    assert stage.actors[leader].core.high_watermark == stage.actors[leader].core.log_end_offset
    stage.heal()
    stage.run_ms(400)
    for ids in ((1, 2, 3, 4), (1, 2, 3), (1, 2), (1,)):
        stage.remove(leader, ids[-1] + 1)
        stage.run_ms(200)
        assert {stage.voters_of(node_id) for node_id in stage.actors} == {ids}
    stage.propose(leader, b"alone")
    assert stage.actors[leader].core.high_watermark == stage.actors[leader].core.log_end_offset


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_then_another_does() -> None:
    stage, leader = led()
    others = [node_id for node_id in stage.ids if node_id != leader]
    for other in others:
        stage.cut(leader, other)
    stage.remove(leader, leader)
    core = stage.actors[leader].core
    assert core.state is State.LEADER and core.high_watermark < core.log_end_offset, "its own ack does not count"
    stage.heal()
    successor = stage.run_until_leader(leader)
    assert stage.voters_of(successor) == tuple(others) and core.state in (State.UNATTACHED, State.FOLLOWER)
    stage.run_ms(3_000)
    assert core.state is State.FOLLOWER and core.leader_id == successor, "it follows as an observer"


def test_a_removed_leader_whose_record_nobody_else_has_is_still_elected() -> None:
    """Its log is the longest, so nobody else can be elected: the record of its removal is not committed yet."""
    stage, leader = led(first=2, joining=0)
    (other,) = (node_id for node_id in stage.ids if node_id != leader)
    stage.cut(leader, other)
    stage.remove(leader, leader)
    stage.crash(leader)
    stage.heal()
    stage.restart(leader)
    assert stage.run_until_leader() == leader
    assert stage.run_until_leader(leader) == other and stage.voters_of(other) == (other,)


def removal_that_one_of_three_has(stage: ChangingStage) -> tuple[int, int, int]:
    """The leader has removed one voter, the other has not heard of it, and then the leader is gone."""
    leader = stage.run_until_leader()
    stage.run_ms(1_000)
    other, removed = (node_id for node_id in stage.ids if node_id != leader)
    stage.cut(leader, other)
    stage.remove(leader, removed)
    stage.propose(leader, b"behind it")
    stage.run_ms(200)
    stage.crash(leader)
    stage.heal()
    return leader, other, removed


def test_a_voter_gets_the_record_of_its_removal_only_when_it_is_committed() -> None:
    stage = ChangingStage(3, 0)
    leader, other, removed = removal_that_one_of_three_has(stage)
    assert stage.voters_of(removed) == stage.ids
    assert stage.run_until_leader() in (other, removed)
    stage.restart(leader)
    stage.run_ms(3_000)
    assert {stage.voters_of(node_id) for node_id in stage.ids} == {stage.ids}, "the removal was lost"


def test_without_the_rule_a_removed_voter_and_one_that_lacks_the_record_elect_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log is the longer one, so it refuses its vote; by its own log it needs the one that is gone."""
    monkeypatch.setattr(VoterHistory, "removed_at", lambda self, node_id, disk: None)
    stage = ChangingStage(3, 0)
    removal_that_one_of_three_has(stage)
    stage.run_ms(20_000)
    assert not [node_id for node_id, actor in stage.actors.items() if actor.core.leadership is not None]


def test_a_removed_leader_and_one_of_the_voters_after_it_elect_nobody() -> None:
    """The leader alone has the record of its own removal. By that, two are voters, of which just one is up. The third
    brings a leader back."""
    stage, leader = led(joining=0)
    third = next(node_id for node_id in stage.ids if node_id != leader)
    stage.cut(leader)
    stage.remove(leader, leader)
    stage.crash(third)
    stage.crash(leader)
    stage.heal()
    stage.restart(leader)
    stage.run_ms(20_000)
    assert not any(actor.core.leadership for actor in stage.actors.values())
    stage.restart(third)
    assert stage.run_until_leader() in stage.ids


def test_a_removed_voter_follows_as_an_observer() -> None:
    stage, leader = led()
    other, removed = (node_id for node_id in stage.ids if node_id != leader)
    stage.remove(leader, removed)
    stage.propose(leader, b"behind it")
    stage.run_ms(100)
    core = stage.actors[removed].core
    assert core.high_watermark == core.log_end_offset == stage.actors[leader].core.log_end_offset
    assert stage.voters_of(removed) == tuple(sorted((leader, other)))


def test_a_new_voter_gives_its_vote_before_its_log_says_that_it_is_one() -> None:
    stage, leader = led(first=1, joining=1)
    stage.cut(1, 2)
    stage.add(leader, 2)
    stage.crash(1)
    stage.heal()
    assert stage.voters_of(2) == (1,)
    stage.restart(1)
    assert stage.run_until_leader() == 1
    stage.run_ms(200)
    assert stage.voters_of(2) == (1, 2)


def test_a_truncation_brings_back_the_voters_before_it() -> None:
    stage, leader = led()
    others = [node_id for node_id in stage.ids if node_id != leader]
    for node_id in stage.actors:
        if node_id != leader:
            stage.cut(leader, node_id)
    stage.add(leader, 4)
    assert stage.voters_of(leader) == (1, 2, 3, 4)
    successor = stage.run_until_leader(leader)
    assert stage.voters_of(successor) == (1, 2, 3) and successor in others
    stage.heal()
    stage.run_ms(3_000)
    assert stage.voters_of(leader) == (1, 2, 3)


def test_the_same_id_on_another_disk_is_no_voter() -> None:
    stage, leader = led()
    core = stage.actors[leader].core
    assert isinstance(refused(stage, leader, AddVoter(Voter(2, "another disk"))), DuplicateVoterError)
    assert isinstance(refused(stage, leader, RemoveVoter(2, "another disk")), VoterNotFoundError)
    assert isinstance(refused(stage, leader, RemoveVoter(9, disk(9))), VoterNotFoundError)
    assert isinstance(refused(stage, leader, UpdateVoter(Voter(2, "another disk"))), VoterNotFoundError)
    assert not core.voters.names(2, "another disk")


def test_a_change_is_refused_while_another_waits() -> None:
    stage, leader = led()
    for node_id in stage.actors:
        stage.cut(node_id)
    stage.add(leader, 4)
    error = refused(stage, leader, AddVoter(voter(5)))
    assert isinstance(error, RequestTimedOutError) and "another change" in str(error)


def test_a_newcomer_that_has_not_caught_up_is_refused() -> None:
    stage, leader = led(joining=0)
    error = refused(stage, leader, AddVoter(voter(4)))
    assert isinstance(error, RequestTimedOutError) and "has not caught up" in str(error)


def test_a_newcomer_that_is_always_one_record_behind_has_caught_up() -> None:
    """Whenever it fetches, the leader has written again; but it reaches the end that was at its fetch before."""
    bench = Bench(voters=VoterSet((voter(1),)), directory_id=disk(1))
    bench.perform()
    for _ in range(3):
        end = bench.core.log_end_offset
        bench.core.propose([b"another"])
        bench.perform()
        fetch(bench, 2, end)
        bench.advance(10)
    bench.core.change_voters(AddVoter(voter(2)), bench.now_ms)
    assert bench.core.voters.ids == (1, 2)


def test_a_newcomer_that_falls_ever_further_behind_has_not_caught_up() -> None:
    bench = Bench(voters=VoterSet((voter(1),)), directory_id=disk(1))
    bench.perform()
    for fetched in range(1, 4):
        bench.core.propose([b"two"] * 2)
        bench.perform()
        fetch(bench, 2, fetched)
        bench.advance(10)
    with pytest.raises(RequestTimedOutError, match=r"has not caught up.*such as room on its disk"):
        bench.core.change_voters(AddVoter(voter(2)), bench.now_ms)


def test_a_change_that_would_take_away_the_majority_that_answers_is_refused() -> None:
    stage, leader = led()
    away, here = (node_id for node_id in stage.ids if node_id != leader)
    stage.crash(away)
    stage.run_ms(500)
    error = refused(stage, leader, RemoveVoter(here, disk(here)))
    assert isinstance(error, RequestTimedOutError) and f"only [{leader}] answer" in str(error)
    stage.remove(leader, away)
    stage.run_ms(100)
    assert stage.voters_of(here) == tuple(sorted((leader, here)))


def test_what_makes_no_sense_is_refused() -> None:
    stage, leader = led(first=1, joining=0)
    for change in (AddVoter(Voter(-1, "x")), AddVoter(Voter(4)), AddVoter(Voter(4, "")), RemoveVoter(1, disk(1))):
        assert isinstance(refused(stage, leader, change), InvalidRequestError)
    assert isinstance(refused(stage, leader, NameDirectories()), InvalidRequestError)


def test_only_the_leader_changes_the_voters() -> None:
    stage, leader = led()
    (follower, *_) = (node_id for node_id in stage.ids if node_id != leader)
    assert isinstance(refused(stage, follower, RemoveVoter(leader, disk(leader))), NotControllerError)


def test_a_voter_moves_to_another_address_without_another_disk() -> None:
    stage, leader = led()
    moved = replace(voter(2), endpoints=voters_at(2).voters[0].endpoints)
    stage.change(leader, UpdateVoter(moved))
    stage.run_ms(100)
    assert all(actor.core.voters.find(2) == moved for actor in stage.actors.values())


def test_a_static_quorum_becomes_dynamic_by_one_record() -> None:
    """Its voters stay the same, and every ack of theirs goes on counting."""
    bench = Bench(voters=voters_at(1, 2, 3), directory_id=disk(1)).become_leader()
    fetch(bench, 2, 1), fetch(bench, 3, 1)
    assert bench.core.high_watermark == 1
    with pytest.raises(UnsupportedVersionError):
        bench.core.change_voters(RemoveVoter(3, disk(3)), bench.now_ms)
    offset = bench.core.change_voters(NameDirectories(), bench.now_ms)
    bench.perform()
    assert bench.core.voters == VoterSet(tuple(replace(one, directory_id=disk(one.voter_id)) for one in AT_THREE))
    known = bench.core.leadership and bench.core.leadership.replicas.find(3, disk(3))
    assert known and known.acked_offset == 1
    fetch(bench, 2, offset + 1)
    assert bench.core.high_watermark == offset + 1


def test_a_static_quorum_stays_static_until_each_voter_has_said_its_disk() -> None:
    bench = Bench(voters=voters_at(1, 2, 3), directory_id=disk(1)).become_leader()
    fetch(bench, 2, 1)
    with pytest.raises(RequestTimedOutError, match="voter 3 has not said"):
        bench.core.change_voters(NameDirectories(), bench.now_ms)


def test_a_static_quorum_stays_static_while_a_voter_whose_disk_is_known_is_away() -> None:
    bench = Bench(voters=voters_at(1, 2, 3), directory_id=disk(1)).become_leader()
    fetch(bench, 2, 1), fetch(bench, 3, 1)
    asked_ms = bench.now_ms = bench.now_ms + 10
    fetch(bench, 2, 1)
    with pytest.raises(RequestTimedOutError, match=r"voters \[3\] are away, and each must run"):
        bench.core.change_voters(NameDirectories(), bench.now_ms, asked_ms)
    fetch(bench, 3, 1)
    assert bench.core.change_voters(NameDirectories(), bench.now_ms, asked_ms) == 1


def test_a_static_quorum_stays_static_while_a_broker_with_an_older_release_follows_it() -> None:
    bench = Bench(voters=voters_at(1, 2, 3), directory_id=disk(1)).become_leader()
    for replica, directory_id in ((2, None), (3, None), (7, "")):
        fetch(bench, replica, 1, directory_id)
    with pytest.raises(RequestTimedOutError, match=r"nodes \[7\] run with an older release"):
        bench.core.change_voters(NameDirectories(), bench.now_ms)
    fetch(bench, 7, 1)
    assert bench.core.change_voters(NameDirectories(), bench.now_ms) == 1


def test_a_leader_keeps_what_each_replica_supports_as_its_newest_fetch_said() -> None:
    bench = Bench(voters=voters_at(1, 2, 3), directory_id=disk(1)).become_leader()

    def supported() -> dict[int, str]:
        found = describe(bench.core, bench.now_ms)
        return {one.replica_id: one.supports for one in (*found.voters, *found.observers)}

    fetch(bench, 2, 1, supports="a=1-2")
    fetch(bench, 7, 1, supports="a=1-1")
    assert supported() == {1: "", 2: "a=1-2", 3: "", 7: "a=1-1"}
    fetch(bench, 2, 1, supports="")
    assert supported()[2] == "", "another process may be of an older release"
    fetch(bench, 3, 1, supports="x" * (SUPPORTS_MAX + 1))
    assert supported()[3] == "", "such a fetch is refused"


AT_THREE = voters_at(1, 2, 3).voters


def fetch(bench: Bench, replica: int, offset: int, directory_id: str | None = None, supports: str = "") -> None:
    epoch, at = bench.core.epoch, disk(replica) if directory_id is None else directory_id
    bench.ask(FetchMetadataRequest(CLUSTER, replica, epoch, offset, 1, 0, 1 << 20, "", 0, at, supports))


# -- the wrong histories -----------------------------------------------------------------------------------------------


def two_at_once(stage: ChangingStage) -> None:
    """Two disjoint majorities (Ongaro, 2014, §4.1, figure 4.2): of {1, 2, 3}, and of {1, 2, 3, 4, 5}."""
    stage.lead(1)
    stage.run_ms(1_000)
    for one in (1, 4, 5):
        for other in (2, 3):
            stage.cut(one, other)
    stage.add(1, 4)
    stage.add(1, 5)
    stage.propose(1, b"committed by 1, 4 and 5")
    stage.run_ms(50)
    stage.lead(2)
    stage.propose(2, b"committed by 2 and 3")
    stage.run_ms(100)


def before_the_first_commit(stage: ChangingStage) -> None:
    """Ongaro, "bug in single-server membership changes", raft-dev, 10 July 2015: two leaders that each began a change,
    of neighbouring sets of four, have majorities without a common voter."""
    stage.lead(1)
    stage.run_ms(1_000)
    for one in (1, 5):
        for other in (2, 3, 4):
            stage.cut(one, other)
    stage.add(1, 5)
    stage.run_ms(20)
    stage.crash(1)
    stage.stands(2)
    stage.at_the_moment(lambda: stage.actors[2].core.leadership is not None, lambda: stage.cut(4))
    stage.run_until(lambda: stage.actors[2].core.leadership is not None)
    stage.remove(2, 1)
    stage.run_ms(100)
    stage.crash(2)
    stage.heal()
    stage.cut(3)
    stage.restart(1)
    stage.lead(1)
    stage.run_ms(300)


HISTORIES = [
    ("two_changes_at_once", two_at_once, 3),
    ("change_before_the_epochs_first_commit", before_the_first_commit, 4),
]


@pytest.mark.parametrize(("mutant", "history", "first"), HISTORIES)
def test_the_wrong_history_is_refused(mutant: str, history: Callable[[ChangingStage], None], first: int) -> None:
    stage = ChangingStage(first, 5 - first)
    with pytest.raises(RequestTimedOutError):
        history(stage)


@pytest.mark.parametrize(("mutant", "history", "first"), HISTORIES)
def test_without_the_rule_the_wrong_history_loses_a_committed_record(
    mutant: str, history: Callable[[ChangingStage], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name, value in VOTER_PATCHES[mutant]:
        monkeypatch.setattr(owner, name, value)
    stage = ChangingStage(first, 5 - first)
    with pytest.raises((AssertionError, InvariantViolation), match=r"was committed in epoch|would cut committed"):
        history(stage)


def test_without_the_rule_a_change_takes_away_the_majority_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader and the voter that is away are the whole set then: nothing is committed, and nobody leads."""
    for owner, name, value in VOTER_PATCHES["change_without_a_majority"]:
        monkeypatch.setattr(owner, name, value)
    stage, leader = led()
    away, here = (node_id for node_id in stage.ids if node_id != leader)
    stage.crash(away)
    stage.run_ms(500)
    stage.remove(leader, here)
    stage.run_ms(5_000)
    assert not [node_id for node_id, actor in stage.actors.items() if actor.core.leadership is not None]
