"""A voter that forgot its votes, or records that it acked, takes no part until it knows again what it promised."""

from __future__ import annotations

import pytest

from penstock.errors import FencedLeaderEpochError, InconsistentClusterIdError, InvalidRequestError
from raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    Outbound,
    RequestFailed,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState, Forgotten, State
from tests.support.raft_bench import CLUSTER, Bench, batch, log_of

VOTES = ElectionState(forgotten=Forgotten.VOTES)
RECORDS = ElectionState(5, -1, 2, Forgotten.RECORDS)


def started(stored: ElectionState, *epochs: int, voters: tuple[int, ...] = (1, 2, 3)) -> Bench:
    bench = Bench(stored=stored, log=log_of(*epochs), voters=voters)
    bench.perform()
    return bench


def fetches(sent: list[Outbound]) -> list[FetchMetadataRequest]:
    return [message.request for message in sent if isinstance(message.request, FetchMetadataRequest)]


def follow(bench: Bench, leader: int, epoch: int) -> Outbound:
    """The voter hears of a leader; its first fetch."""
    bench.request(BeginQuorumEpochRequest(CLUSTER, leader, epoch, 1))
    return bench.take_sent()[-1]


def answer_fetch(bench: Bench, fetch: Outbound, log_end_offset: int, records: bytes = b"") -> Outbound:
    """The leader of the present epoch answers; the next fetch."""
    response = FetchMetadataResponse(fetch.to, bench.core.epoch, 0, 0, records, log_end_offset=log_end_offset)
    bench.answer(fetch, response)
    return bench.take_sent()[-1]


@pytest.mark.parametrize("stored", [VOTES, RECORDS], ids=["votes", "records"])
@pytest.mark.parametrize("pre_vote", [True, False])
def test_voter_that_forgot_gives_no_vote(stored: ElectionState, pre_vote: bool) -> None:
    response = started(stored).request(VoteRequest(CLUSTER, 9, 2, 1, 8, 100, pre_vote))
    assert isinstance(response, VoteResponse)
    assert (response.vote_granted, response.error_code, response.leader_epoch) == (False, 0, 9)


@pytest.mark.parametrize("stored", [VOTES, RECORDS], ids=["votes", "records"])
def test_voter_that_forgot_never_stands_for_election(stored: ElectionState) -> None:
    bench = started(stored)
    for _ in range(30):
        bench.advance_to_deadline()
        for message in bench.take_sent():
            bench.core.step(RequestFailed(message.correlation_id), bench.now_ms)
    bench.request(EndQuorumEpochRequest(CLUSTER, 2, 9, (1, 3)))
    assert bench.core.state is State.UNATTACHED
    assert bench.core.statistics().pre_vote_rounds == 0


def test_voter_that_forgot_its_votes_fetches_from_nobody_before_every_other_voter_told_its_epoch() -> None:
    bench = started(VOTES, 1, 2)
    first, second = bench.take_sent()
    assert {first.to, second.to} == {2, 3}
    assert isinstance(first.request, VoteRequest) and first.request.pre_vote

    bench.request(BeginQuorumEpochRequest(CLUSTER, 2, 7, 1))  # a leader: its epoch is taken over, but not followed
    assert bench.core.state is State.UNATTACHED and bench.core.epoch == 7
    bench.advance_to_deadline()
    asked = {message.to: message for message in bench.take_sent()}
    bench.answer(asked[2], VoteResponse(2, 7))
    bench.advance(200)
    assert fetches(bench.take_sent()) == []
    assert bench.core.unheard_voters == {3}

    bench.answer(asked[3], VoteResponse(-1, 8))
    assert bench.store.state == ElectionState(8, forgotten=Forgotten.RECORDS)
    bench.advance_to_deadline()
    assert [fetch.current_leader_epoch for fetch in fetches(bench.take_sent())] == [8]


def test_refusal_of_an_old_epoch_tells_the_epoch_and_other_errors_do_not() -> None:
    bench = started(VOTES)
    first, second = bench.take_sent()
    bench.answer(first, VoteResponse(-1, 0, error_code=InconsistentClusterIdError.code))
    bench.answer(second, VoteResponse(-1, 0, error_code=InvalidRequestError.code))
    bench.advance(1_000)
    for message in bench.take_sent():
        bench.answer(message, VoteResponse(0, 0))  # an answer without any field
    assert bench.core.unheard_voters == {2, 3}
    bench.advance(1_000)
    for message in bench.take_sent():
        bench.answer(message, VoteResponse(-1, 4, error_code=FencedLeaderEpochError.code))
    bench.advance(1_000)  # the first answer raised the epoch, and with that the other question was asked anew
    for message in bench.take_sent():
        bench.answer(message, VoteResponse(-1, 4))
    assert (bench.core.forgotten, bench.core.epoch) == (Forgotten.RECORDS, 4)


def test_a_voter_that_does_not_answer_is_asked_again() -> None:
    bench = started(VOTES)
    first, second = bench.take_sent()
    bench.answer(first, VoteResponse(-1, 0))
    bench.core.step(RequestFailed(second.correlation_id), bench.now_ms)
    bench.advance_to_deadline()
    assert [message.to for message in bench.take_sent()] == [second.to]
    assert bench.core.forgotten is Forgotten.VOTES


def test_voter_takes_part_again_when_its_durable_log_has_reached_the_end_that_the_leader_first_told() -> None:
    bench = started(RECORDS, 1, 2)
    fetch = follow(bench, 2, 6)
    fetch = answer_fetch(bench, fetch, 4, batch(b"a", 2, 5))
    assert bench.core.forgotten is Forgotten.RECORDS
    fetch = answer_fetch(bench, fetch, 9, batch(b"b", 3, 6))  # the log has grown since; what was acked is below 4
    assert bench.core.forgotten is Forgotten.RECORDS
    answer_fetch(bench, fetch, 9)
    assert bench.store.state == ElectionState(6, 2, -1)

    response = bench.request(VoteRequest(CLUSTER, 7, 3, 1, 6, 9, False))
    assert isinstance(response, VoteResponse) and response.vote_granted


def test_log_end_of_an_earlier_leader_counts_no_more() -> None:
    bench = started(RECORDS, 1, 2)
    fetch = follow(bench, 2, 6)
    answer_fetch(bench, fetch, 3, batch(b"a", 2, 6))
    fetch = follow(bench, 3, 7)
    fetch = answer_fetch(bench, fetch, 5, batch(b"b", 3, 7))
    assert bench.core.forgotten is Forgotten.RECORDS
    fetch = answer_fetch(bench, fetch, 5, batch(b"c", 4, 7))
    answer_fetch(bench, fetch, 5)
    assert bench.core.forgotten is Forgotten.NOTHING


def test_leader_that_does_not_tell_its_log_end_brings_nobody_back() -> None:
    bench = started(RECORDS, 1, 2)
    answer_fetch(bench, follow(bench, 2, 6), 0)
    assert bench.core.forgotten is Forgotten.RECORDS


def test_voter_that_comes_back_votes_in_no_epoch_in_which_it_may_have_voted() -> None:
    bench = started(VOTES)
    for message in bench.take_sent():
        bench.answer(message, VoteResponse(-1, 0))
    bench.advance_to_deadline()
    fetch = follow(bench, 2, 5)
    fetch = answer_fetch(bench, fetch, 1, batch(b"a", 0, 5))
    answer_fetch(bench, fetch, 1)
    assert bench.core.forgotten is Forgotten.NOTHING
    response = bench.request(VoteRequest(CLUSTER, 5, 3, 1, 5, 9, False))
    assert isinstance(response, VoteResponse) and not response.vote_granted


def test_crash_on_the_way_back_does_not_forget_what_was_forgotten() -> None:
    bench = started(RECORDS, 1, 2)
    answer_fetch(bench, follow(bench, 2, 6), 4)
    again = Bench(stored=bench.store.state, log=bench.log)
    assert again.core.forgotten is Forgotten.RECORDS
    again.perform()
    assert [message.to for message in again.take_sent()] == [2]


def test_former_leader_that_forgot_records_does_not_lead_nor_vote_in_its_epoch() -> None:
    bench = started(ElectionState(5, 1, 1, Forgotten.RECORDS), 5)
    assert bench.core.state is State.UNATTACHED
    response = bench.request(VoteRequest(CLUSTER, 5, 2, 1, 9, 9, False))
    assert isinstance(response, VoteResponse) and not response.vote_granted


def test_leader_tells_its_log_end() -> None:
    bench = Bench(log=log_of(1, 1), stored=ElectionState(1)).become_leader()
    response = bench.request(FetchMetadataRequest(CLUSTER, 2, 2, 1, 1, 0, 1 << 20))
    assert isinstance(response, FetchMetadataResponse)
    assert response.log_end_offset == bench.log.log_end_offset == 3


def test_a_candidate_is_given_its_vote_again_only_with_a_log_that_is_not_behind() -> None:
    bench = started(ElectionState(5, -1, 2), 4, 4)
    for end, granted in ((2, True), (1, False)):
        response = bench.request(VoteRequest(CLUSTER, 5, 2, 1, 4, end, False))
        assert isinstance(response, VoteResponse)
        assert response.vote_granted is granted
