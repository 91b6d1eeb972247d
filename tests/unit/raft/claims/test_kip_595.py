"""The claims of KIP-595 that no other test proves; the table is kip_595.py."""

from __future__ import annotations

import pytest

from penstock.types import EpochEndOffset
from raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    RequestFailed,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import CLUSTER, Bench, log_of
from tests.unit.raft.claims.states import EPOCH, in_state, on_the_way_to

INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER = 42, 74, 75, 6


def vote(epoch: int, candidate: int = 3) -> VoteRequest:
    return VoteRequest(CLUSTER, epoch, candidate, 1, 9, 100, False)


def begin(epoch: int, leader: int) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(CLUSTER, leader, epoch, 1)


def fetch(epoch: int, offset: int = 2, last_epoch: int = 5) -> FetchMetadataRequest:
    return FetchMetadataRequest(CLUSTER, 3, epoch, offset, last_epoch, 0, 1 << 20)


def notices(bench: Bench) -> list[int]:
    """To whom this leader has said since the last look that it leads."""
    return sorted(sent.to for sent in bench.take_sent() if isinstance(sent.request, BeginQuorumEpochRequest))


# -- Vote --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_candidate_that_is_no_voter_gets_no_vote_and_raises_no_epoch(state: State) -> None:
    bench = in_state(state)
    epoch = bench.core.epoch
    response = bench.request(vote(EPOCH + 9, candidate=7))
    assert isinstance(response, VoteResponse)
    assert (response.error_code, response.vote_granted, response.leader_epoch) == (INVALID_REQUEST, False, epoch)
    assert (bench.core.state, bench.core.epoch, bench.store.saves) == (state, epoch, [])


def test_candidate_votes_for_another_in_a_later_epoch() -> None:
    bench = in_state(State.CANDIDATE)
    own_epoch = bench.core.epoch
    refused, granted = bench.request(vote(own_epoch)), bench.request(vote(own_epoch + 1))
    assert isinstance(refused, VoteResponse) and not refused.vote_granted
    assert isinstance(granted, VoteResponse) and granted.vote_granted
    assert bench.store.state == ElectionState(own_epoch + 1, -1, 3)


def test_vote_for_a_candidate_that_follows_by_now_is_not_counted() -> None:
    bench = on_the_way_to(State.CANDIDATE)
    question = bench.take_sent()[-1]
    bench.request(begin(EPOCH + 1, leader=3))
    bench.answer(question, VoteResponse(-1, EPOCH + 1, True))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 3)
    assert bench.core.statistics().answers_dropped == 1


# -- BeginQuorumEpoch --------------------------------------------------------------------------------------------------


def test_leader_is_followed_also_by_a_voter_that_voted_for_another() -> None:
    bench = in_state(State.VOTED)
    response = bench.request(begin(EPOCH, leader=3))
    assert response == BeginQuorumEpochResponse(3, EPOCH)
    ready = bench.readys[-1]
    assert ready.election_state == ElectionState(EPOCH, 3, 2)
    (first,) = ready.messages
    assert (
        first.to == 3
        and isinstance(first.request, FetchMetadataRequest)
        and first.request.current_leader_epoch == EPOCH
    )


@pytest.mark.parametrize("state", [State.FOLLOWER, State.LEADER, State.RESIGNED])
def test_second_leader_of_an_epoch_is_rejected(state: State) -> None:
    bench = in_state(state)
    epoch, leader = bench.core.epoch, bench.core.leader_id
    response = bench.request(begin(epoch, leader=3))
    assert response is not None
    assert (response.error_code, response.leader_id, response.leader_epoch) == (INVALID_REQUEST, leader, epoch)
    assert f"epoch {epoch} has leader {2 if state is State.FOLLOWER else 1}" in response.error_message
    assert (bench.core.state, bench.store.saves, bench.take_sent()) == (state, [], [])


def test_voter_that_fetches_is_not_told_again_who_leads() -> None:
    bench = on_the_way_to(State.LEADER)
    for notice in bench.take_sent():
        bench.core.step(RequestFailed(notice.correlation_id), bench.now_ms)
    sent = []
    for _ in range(10):
        bench.request(fetch(bench.core.epoch))
        bench.advance(300)
        sent += notices(bench)
    assert sent == [2]


def test_leader_that_is_told_of_a_later_one_follows_it() -> None:
    bench = on_the_way_to(State.LEADER)
    notice = bench.take_sent()[-1]
    assert isinstance(notice.request, BeginQuorumEpochRequest)
    bench.answer(notice, BeginQuorumEpochResponse(2, EPOCH + 4, FENCED_LEADER_EPOCH))
    assert (bench.core.state, bench.core.leader_id, bench.core.epoch) == (State.FOLLOWER, 2, EPOCH + 4)
    (first,) = bench.take_sent()
    assert first.to == 2 and isinstance(first.request, FetchMetadataRequest)


# -- EndQuorumEpoch ----------------------------------------------------------------------------------------------------


def test_voter_that_is_no_successor_waits_for_its_election_timeout() -> None:
    bench = in_state(State.FOLLOWER)
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, EPOCH, (3,)))
    assert bench.core.state is State.UNATTACHED
    assert 1_000 <= bench.core.next_deadline_ms() - bench.now_ms <= 2_000
    bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE


def test_candidate_that_stops_says_nothing() -> None:
    bench = in_state(State.CANDIDATE)
    bench.core.resign(bench.now_ms)
    bench.perform()
    assert (bench.core.state, bench.take_sent()) == (State.CANDIDATE, [])


def test_end_of_a_later_epoch_raises_the_epoch() -> None:
    bench = in_state(State.FOLLOWER)
    bench.request(EndQuorumEpochRequest(CLUSTER, 3, EPOCH + 2, (1, 2)))
    assert (bench.core.state, bench.core.epoch) == (State.PROSPECTIVE, EPOCH + 2)
    assert bench.store.state == ElectionState(EPOCH + 2)


# -- Fetch -------------------------------------------------------------------------------------------------------------


def test_leader_takes_fetches_of_its_own_epoch_only() -> None:
    bench = in_state(State.LEADER)
    epoch = bench.core.epoch
    codes = []
    for asked in (epoch - 1, epoch, epoch + 1):
        response = bench.request(fetch(asked))
        assert isinstance(response, FetchMetadataResponse) and (response.leader_id, response.leader_epoch) == (1, epoch)
        codes.append((response.error_code, bool(response.records)))
    assert codes == [(FENCED_LEADER_EPOCH, False), (0, True), (UNKNOWN_LEADER_EPOCH, False)]
    assert bench.core.state is State.LEADER


def test_follower_that_is_asked_for_records_names_the_leader() -> None:
    response = in_state(State.FOLLOWER).request(fetch(EPOCH))
    assert isinstance(response, FetchMetadataResponse)
    assert (response.error_code, response.leader_id, response.leader_epoch) == (NOT_LEADER, 2, EPOCH)


def test_fenced_follower_follows_the_leader_that_it_is_told() -> None:
    bench = on_the_way_to(State.FOLLOWER)
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(3, EPOCH + 1, error_code=FENCED_LEADER_EPOCH))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 3)
    assert bench.store.state == ElectionState(EPOCH + 1, 3)
    assert [sent.to for sent in bench.take_sent()] == [3]


def test_fenced_voter_that_is_told_no_leader_waits_and_then_asks_for_pre_votes() -> None:
    bench = on_the_way_to(State.FOLLOWER)
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(-1, EPOCH + 1, error_code=FENCED_LEADER_EPOCH))
    assert (bench.core.state, bench.core.epoch, bench.take_sent()) == (State.UNATTACHED, EPOCH + 1, [])
    bench.advance_to_deadline()
    asked = [sent.request for sent in bench.take_sent()]
    assert asked == [VoteRequest(CLUSTER, EPOCH + 1, 1, voter, 5, 2, True) for voter in (2, 3)]


def test_truncation_takes_every_record_of_a_later_epoch() -> None:
    """The leader's log has epoch 2 up to offset 3; this one's has epochs 1 and 4, and they part at offset 2."""
    bench = Bench(stored=ElectionState(EPOCH, 2), log=log_of(1, 1, 4, 4))
    bench.perform()
    bench.answer(bench.take_sent()[0], FetchMetadataResponse(2, EPOCH, 0, 0, diverging_epoch=EpochEndOffset(2, 3)))
    assert bench.readys[-1].truncate_to == bench.log.log_end_offset == 2
    (again,) = bench.take_sent()
    assert isinstance(again.request, FetchMetadataRequest) and again.request.last_fetched_epoch == 1
