"""Elections of one core on the bench: pre-votes, votes, refusals, retries; and what is persisted before it is said."""

from __future__ import annotations

from itertools import pairwise

import pytest

from raft.election import log_is_up_to_date
from raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    RequestFailed,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import CLUSTER, Bench, log_of


def vote(epoch: int, candidate: int = 2, *, pre: bool = False, last: tuple[int, int] = (-1, 0)) -> VoteRequest:
    return VoteRequest(CLUSTER, epoch, candidate, 1, last[0], last[1], pre)


def begin(epoch: int, leader: int = 2) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(CLUSTER, leader, epoch, 1)


def answer_to(bench: Bench, request: VoteRequest) -> VoteResponse:
    response = bench.request(request)
    assert isinstance(response, VoteResponse)
    return response


@pytest.mark.parametrize(
    ("candidate", "own", "good"),
    [((2, 5), (2, 5), True), ((2, 4), (2, 5), False), ((3, 1), (2, 5), True), ((1, 9), (2, 5), False)],
)
def test_later_epoch_wins_then_the_longer_log(candidate: tuple[int, int], own: tuple[int, int], good: bool) -> None:
    assert log_is_up_to_date(vote(9, last=candidate), *own) is good


def test_election_timeout_starts_a_pre_vote_that_does_not_raise_the_epoch() -> None:
    bench = Bench(stored=ElectionState(4))
    started_ms = bench.now_ms
    bench.advance_to_deadline()
    assert 1_000 <= bench.now_ms - started_ms <= 2_000
    assert bench.core.state is State.PROSPECTIVE
    asked = [message.request for message in bench.sent]
    assert asked == [VoteRequest(CLUSTER, 4, 1, voter, -1, 0, True) for voter in (2, 3)]
    assert bench.store.saves == []


def test_pre_vote_majority_leads_to_a_candidacy_that_is_persisted_before_it_is_told() -> None:
    bench = Bench(stored=ElectionState(4)).become_prospective()
    bench.answer(bench.take_sent()[0], VoteResponse(-1, 4, True))
    assert bench.core.state is State.CANDIDATE
    ready = bench.readys[-1]
    assert ready.election_state == ElectionState(5, -1, 1)
    assert {message.to for message in ready.messages} == {2, 3}


def test_vote_majority_leads_and_a_leader_change_record_is_appended_at_once() -> None:
    bench = Bench(log=log_of(1, 1, 2), stored=ElectionState(2)).become_leader()
    assert bench.core.state is State.LEADER
    assert bench.store.state == ElectionState(3, 1, 1)
    assert bench.log.log_end_offset == 4
    assert bench.log.epoch_at(3) == 3
    assert [type(message.request) for message in bench.take_sent()] == [BeginQuorumEpochRequest] * 2


def test_single_voter_leads_without_asking_anybody() -> None:
    bench = Bench(voters=(1,))
    bench.perform()
    assert bench.core.state is State.LEADER
    assert bench.sent == []
    assert bench.core.high_watermark == 1


def test_single_voter_leads_again_in_a_new_epoch_after_a_restart() -> None:
    bench = Bench(voters=(1,), stored=ElectionState(6, 1, 1), log=log_of(6))
    bench.perform()
    assert (bench.core.state, bench.core.epoch, bench.core.high_watermark) == (State.LEADER, 7, 2)


def test_vote_is_granted_once_in_an_epoch_and_again_only_to_the_same_candidate() -> None:
    bench = Bench()
    assert answer_to(bench, vote(1, candidate=2)).vote_granted
    assert bench.store.state == ElectionState(1, -1, 2)
    assert not answer_to(bench, vote(1, candidate=3)).vote_granted
    assert answer_to(bench, vote(1, candidate=2)).vote_granted
    assert answer_to(bench, vote(2, candidate=3)).vote_granted


def test_vote_survives_a_restart() -> None:
    bench = Bench()
    assert answer_to(bench, vote(1, candidate=2)).vote_granted
    again = Bench(stored=bench.store.state, log=bench.log.crash())
    assert not answer_to(again, vote(1, candidate=3)).vote_granted


def test_vote_is_refused_to_a_log_that_is_behind_but_the_epoch_is_learned() -> None:
    bench = Bench(log=log_of(1, 2), stored=ElectionState(2))
    response = answer_to(bench, vote(7, last=(1, 9)))
    assert (response.vote_granted, response.leader_epoch) == (False, 7)
    assert bench.store.state == ElectionState(7)


def test_stale_vote_request_is_fenced_with_the_present_epoch() -> None:
    response = answer_to(Bench(stored=ElectionState(5)), vote(4))
    assert (response.error_code, response.leader_epoch, response.vote_granted) == (74, 5, False)


def test_pre_vote_is_granted_by_many_and_persisted_by_none() -> None:
    bench = Bench(stored=ElectionState(3))
    assert answer_to(bench, vote(3, candidate=2, pre=True)).vote_granted
    assert answer_to(bench, vote(3, candidate=3, pre=True)).vote_granted
    assert bench.store.saves == []


def test_voter_that_voted_still_grants_pre_votes() -> None:
    bench = Bench()
    answer_to(bench, vote(1, candidate=2))
    assert answer_to(bench, vote(1, candidate=3, pre=True)).vote_granted


def follower_of_2(has_fetched: bool) -> Bench:
    bench = Bench()
    bench.request(begin(1))
    if has_fetched:
        fetch = bench.take_sent()[0]
        bench.answer(fetch, FetchMetadataResponse(2, 1, 0, 0))
    return bench


def test_follower_with_a_live_leader_refuses_pre_votes_and_names_the_leader() -> None:
    response = answer_to(follower_of_2(has_fetched=True), vote(1, candidate=3, pre=True))
    assert (response.vote_granted, response.leader_id) == (False, 2)


def test_follower_that_never_reached_its_leader_grants_pre_votes_and_does_not_spread_hearsay() -> None:
    response = answer_to(follower_of_2(has_fetched=False), vote(1, candidate=3, pre=True))
    assert (response.vote_granted, response.leader_id) == (True, -1)


def test_leader_refuses_pre_votes() -> None:
    bench = Bench().become_leader()
    assert not answer_to(bench, vote(1, candidate=3, pre=True, last=(9, 9))).vote_granted
    assert bench.core.state is State.LEADER


def test_follower_gives_no_vote_in_the_epoch_of_its_leader() -> None:
    assert not answer_to(follower_of_2(has_fetched=False), vote(1, candidate=3)).vote_granted


def test_resigned_leader_gives_no_vote_in_its_epoch_but_pre_votes() -> None:
    bench = Bench().become_leader()
    bench.core.resign(bench.now_ms)
    bench.perform()
    assert not answer_to(bench, vote(1, candidate=3, last=(1, 1))).vote_granted
    assert answer_to(bench, vote(1, candidate=3, last=(1, 1), pre=True)).vote_granted


def test_prospective_returns_to_a_leader_that_somebody_still_follows() -> None:
    bench = Bench(stored=ElectionState(3)).become_prospective()
    bench.answer(bench.take_sent()[0], VoteResponse(3, 3, False))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 3)


def test_lost_pre_vote_is_repeated_after_a_random_pause() -> None:
    bench = Bench(stored=ElectionState(3)).become_prospective()
    for outbound in bench.take_sent():
        bench.answer(outbound, VoteResponse(-1, 3, False))
    assert bench.core.state is State.PROSPECTIVE
    before_ms = bench.now_ms
    bench.advance_to_deadline()
    assert 100 <= bench.now_ms - before_ms <= 1_000
    assert len(bench.take_sent()) == 2


def test_candidate_that_times_out_asks_for_pre_votes_again_in_its_epoch() -> None:
    bench = Bench(stored=ElectionState(3)).become_candidate()
    bench.take_sent()
    bench.advance_to_deadline()
    assert (bench.core.state, bench.core.epoch) == (State.PROSPECTIVE, 4)


def test_failed_vote_request_is_repeated_after_the_back_off() -> None:
    bench = Bench().become_prospective()
    first, _ = bench.take_sent()
    bench.core.step(RequestFailed(first.correlation_id), bench.now_ms)
    bench.advance(30)
    assert bench.take_sent() == []
    bench.advance(30)
    (again,) = bench.take_sent()
    assert (again.to, again.request) == (first.to, first.request)


def test_answer_to_an_earlier_round_is_dropped() -> None:
    bench = Bench().become_prospective()
    old, _ = bench.take_sent()
    bench.advance_to_deadline()
    bench.answer(old, VoteResponse(-1, 0, True))
    assert bench.core.state is State.PROSPECTIVE
    assert bench.core.statistics().answers_dropped == 1


def test_candidate_follows_whoever_won_its_epoch() -> None:
    bench = Bench().become_candidate()
    bench.request(begin(1, leader=3))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 3)
    assert bench.store.state == ElectionState(1, 3, 1)


def test_newer_epoch_in_an_answer_ends_leadership() -> None:
    bench = Bench().become_leader()
    notice = bench.take_sent()[0]
    bench.answer(notice, VoteResponse(-1, 9, False))  # an answer of the wrong kind proves nothing
    assert bench.core.state is State.LEADER
    assert answer_to(bench, vote(9, last=(9, 9))).vote_granted
    assert (bench.core.state, bench.core.epoch) == (State.VOTED, 9)


def test_first_successor_stands_at_once_when_its_leader_ends() -> None:
    bench = follower_of_2(has_fetched=True)
    bench.take_sent()
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, 1, (1, 3)))
    assert bench.core.state is State.PROSPECTIVE
    assert len([m for m in bench.take_sent() if isinstance(m.request, VoteRequest)]) == 2


def test_later_successor_waits_and_grants_pre_votes_meanwhile() -> None:
    bench = follower_of_2(has_fetched=True)
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, 1, (3, 1)))
    assert bench.core.state is State.UNATTACHED
    assert answer_to(bench, vote(1, candidate=3, pre=True)).vote_granted
    before_ms = bench.now_ms
    bench.advance_to_deadline()
    assert bench.now_ms - before_ms == 500


def test_leader_that_ended_is_not_followed_again_by_a_late_notice() -> None:
    bench = follower_of_2(has_fetched=True)
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, 1, (3, 1)))
    bench.request(begin(1))
    assert bench.core.state is State.UNATTACHED


def test_end_of_an_epoch_by_another_than_its_leader_changes_nothing() -> None:
    bench = follower_of_2(has_fetched=True)
    bench.request(EndQuorumEpochRequest(CLUSTER, 3, 1, (1,)))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 2)


def test_leader_back_from_a_crash_tells_the_voters_that_its_epoch_ended() -> None:
    bench = Bench(stored=ElectionState(4, 1, 1), log=log_of(4))
    bench.perform()
    assert [message.request for message in bench.sent] == [EndQuorumEpochRequest(CLUSTER, 1, 4, (2, 3))] * 2
    bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE


def test_observer_asks_for_the_leader_and_follows_the_hint() -> None:
    bench = Bench(node_id=9)
    bench.advance_to_deadline()
    (search,) = bench.take_sent()
    assert isinstance(search.request, FetchMetadataRequest) and search.to in (1, 2, 3)
    bench.answer(search, FetchMetadataResponse(2, 7, error_code=74))
    assert (bench.core.state, bench.core.leader_id, bench.core.epoch) == (State.FOLLOWER, 2, 7)
    assert bench.take_sent()[0].to == 2


def test_observer_without_answers_asks_more_and_more_slowly_and_never_one_voter_twice_in_a_row() -> None:
    bench = Bench(node_id=9)
    pauses: list[int] = []
    asked: list[int] = []
    for _ in range(8):
        before_ms = bench.now_ms
        bench.advance_to_deadline()
        pauses.append(bench.now_ms - before_ms)
        (search,) = bench.take_sent()
        asked.append(search.to)
        bench.core.step(RequestFailed(search.correlation_id), bench.now_ms)
    assert all(one != next_one for one, next_one in pairwise(asked))
    assert pauses[0] <= 50 < pauses[3] < pauses[-1] <= 1_000
    assert bench.core.state is State.UNATTACHED
