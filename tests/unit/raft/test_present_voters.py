"""Every part of a core goes by the voters that the quorum's state has at that moment, and keeps none of its own.

These tests change them in the quorum's state, and back again as a truncation would. What changes them in a running
quorum: test_voter_changes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from raft.driver.describe import describe
from raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState, QuorumState, State
from raft.voters import VoterSet
from tests.support.raft_bench import CLUSTER, Bench
from tests.support.voters import voters_of

THREE, FIVE = voters_of(1, 2, 3), voters_of(1, 2, 3, 4, 5)


@dataclass
class Present:
    """The voters that the state of every quorum has."""

    voters: VoterSet = THREE


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Present:
    found = Present()
    monkeypatch.setattr(QuorumState, "voters", property(lambda state: found.voters))
    return found


def fetch(bench: Bench, replica: int, offset: int) -> None:
    bench.ask(FetchMetadataRequest(CLUSTER, replica, bench.core.epoch, offset, 1, 0, 1 << 20))


def members(bench: Bench) -> tuple[list[int], list[int]]:
    """The voters and the observers, as the node describes them."""
    found = describe(bench.core, bench.now_ms)
    return [each.replica_id for each in found.voters], [each.replica_id for each in found.observers]


def test_a_leader_commits_by_the_majority_of_the_present_voters(present: Present) -> None:
    bench = Bench().become_leader()
    present.voters = FIVE
    fetch(bench, 2, 1)
    assert bench.core.high_watermark == 0, "two of five"
    fetch(bench, 4, 1)
    assert bench.core.high_watermark == 1


def test_the_ack_of_an_observer_counts_from_the_moment_at_which_it_is_a_voter(present: Present) -> None:
    bench = Bench(voters=THREE.ids).become_leader()
    fetch(bench, 4, 1)
    assert bench.core.high_watermark == 0 and members(bench) == ([1, 2, 3], [4])
    present.voters = voters_of(1, 2, 4)
    assert members(bench) == ([1, 2, 4], [3])
    fetch(bench, 4, 1)
    assert bench.core.high_watermark == 1


def test_a_voter_that_is_one_no_longer_is_an_observer_with_its_progress(present: Present) -> None:
    bench = Bench().become_leader()
    present.voters = voters_of(1, 2, 3, 5)
    fetch(bench, 5, 1)
    present.voters = THREE
    assert members(bench) == ([1, 2, 3], [5])
    assert bench.core.leadership is not None and bench.core.leadership.replicas.observers()[0].acked_offset == 1
    present.voters = FIVE
    assert members(bench) == ([1, 2, 3, 4, 5], [])


def test_a_new_voter_is_told_who_leads_and_one_that_left_is_not(present: Present) -> None:
    bench = Bench().become_leader()
    bench.take_sent()
    present.voters = voters_of(1, 2, 4)
    bench.advance(1)
    assert [(out.to, type(out.request)) for out in bench.take_sent()] == [(4, BeginQuorumEpochRequest)]
    bench.core.resign(bench.now_ms)
    bench.perform()
    ends = [out for out in bench.take_sent() if isinstance(out.request, EndQuorumEpochRequest)]
    assert [out.to for out in ends] == [2, 4]


def test_a_leader_resigns_when_no_majority_of_the_present_voters_fetches(present: Present) -> None:
    bench = Bench().become_leader()
    present.voters = FIVE
    for _ in range(40):
        bench.advance(100)
        fetch(bench, 2, 1)
        if bench.core.state is not State.LEADER:
            break
    assert bench.core.state is State.RESIGNED
    assert bench.now_ms - bench.core.statistics().last_contact_ms <= bench.config.check_quorum_timeout_ms + 100


def test_votes_are_counted_among_the_present_voters(present: Present) -> None:
    bench = Bench().become_prospective()
    (first, second) = bench.take_sent()
    present.voters = FIVE
    bench.answer(first, VoteResponse(-1, bench.core.epoch, True))
    assert bench.core.state is State.PROSPECTIVE, "two of five"
    bench.answer(second, VoteResponse(-1, bench.core.epoch, True))
    assert bench.core.state is State.CANDIDATE
    assert [out.to for out in bench.take_sent()] == [2, 3, 4, 5]


def test_the_vote_of_a_node_that_is_no_voter_any_more_does_not_count(present: Present) -> None:
    bench = Bench().become_prospective()
    (_, to_3) = bench.take_sent()
    present.voters = voters_of(1, 2, 4)
    bench.answer(to_3, VoteResponse(-1, bench.core.epoch, True))
    assert bench.core.state is State.PROSPECTIVE


@pytest.mark.parametrize(("voters", "granted"), [(THREE, False), (FIVE, True), (voters_of(2, 3, 4), False)])
def test_a_vote_goes_from_a_present_voter_to_a_present_voter(present: Present, voters: VoterSet, granted: bool) -> None:
    bench = Bench()
    present.voters = voters
    answer = bench.request(VoteRequest(CLUSTER, 1, 4, 1, 0, 0, False))
    assert isinstance(answer, VoteResponse) and answer.vote_granted is granted


def test_only_a_present_voter_is_followed(present: Present) -> None:
    bench = Bench()
    begin = BeginQuorumEpochRequest(CLUSTER, 4, 1, 1)
    bench.request(begin)
    assert bench.core.state is State.UNATTACHED
    present.voters = FIVE
    bench.request(begin)
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 4)


def test_an_observer_looks_for_the_leader_among_the_present_voters(present: Present) -> None:
    bench = Bench(node_id=9)
    present.voters = voters_of(7, 8)
    for _ in range(10):
        bench.advance_to_deadline()
    asked = {out.to for out in bench.take_sent() if isinstance(out.request, FetchMetadataRequest)}
    assert asked and asked <= {7, 8}


def holders(found: object, seen: set[int]) -> Iterator[str]:
    """The types of raft's objects that have a set of voters among their attributes, from this object on."""
    if id(found) in seen:
        return
    seen.add(id(found))
    if isinstance(found, dict):
        inside = list(found.values())
    elif isinstance(found, list | tuple | set | frozenset):
        inside = list(found)
    elif type(found).__module__.startswith("raft."):
        names = [name for base in type(found).__mro__ for name in getattr(base, "__slots__", ())]
        inside = [getattr(found, name) for name in names if hasattr(found, name)] + list(vars_of(found).values())
        if any(isinstance(each, VoterSet) for each in (*inside, *listed_in(inside))):
            yield type(found).__name__
    else:
        return
    for each in inside:
        if not isinstance(each, VoterSet):
            yield from holders(each, seen)


def listed_in(inside: list[object]) -> Iterator[object]:
    """The members of the tuples in the lists."""
    for each in inside:
        if isinstance(each, list):
            yield from (member for pair in each if isinstance(pair, tuple) for member in pair)


def vars_of(found: object) -> dict[str, object]:
    return getattr(found, "__dict__", {})


@pytest.mark.parametrize("stored", [ElectionState(), ElectionState(5, 2)])
def test_no_part_of_a_core_holds_the_voters_but_their_history(stored: ElectionState) -> None:
    """The configuration has the first ones, which only the history reads; the quorum's state has the history."""
    bench = Bench(stored=stored)
    if stored.leader_id < 0:
        bench.become_leader()
    assert sorted(holders(bench.core, set())) == ["RaftConfig", "VoterHistory"]
