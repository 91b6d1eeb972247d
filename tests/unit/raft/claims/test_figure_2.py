"""The claims of figure 2 of the Raft paper that no other test proves; the table is figure_2.py."""

from __future__ import annotations

import pytest

from raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import CLUSTER, Bench, batch, log_of
from tests.support.raft_fakes import values_of
from tests.unit.raft.claims.states import EPOCH, LOG_END, in_state, on_the_way_to

LATER = EPOCH + 4
GOOD_LOG = (LATER, 100)


def vote(epoch: int, candidate: int = 3, *, pre: bool = False, last: tuple[int, int] = GOOD_LOG) -> VoteRequest:
    return VoteRequest(CLUSTER, epoch, candidate, 1, last[0], last[1], pre)


def fetch(replica: int, epoch: int, offset: int, last_epoch: int, wait_ms: int = 0) -> FetchMetadataRequest:
    return FetchMetadataRequest(CLUSTER, replica, epoch, offset, last_epoch, wait_ms, 1 << 20)


def answered(bench: Bench, request: Request) -> FetchMetadataResponse:
    response = bench.request(request)
    assert isinstance(response, FetchMetadataResponse)
    return response


def leader_of_epoch_1() -> Bench:
    """With its LeaderChange at offset 0, acked by node 2 and so committed."""
    bench = Bench().become_leader()
    bench.take_sent()
    answered(bench, fetch(2, 1, 1, 1))
    assert bench.core.high_watermark == 1
    return bench


# -- state -------------------------------------------------------------------------------------------------------------


def test_first_boot_is_epoch_0_without_a_vote_and_with_an_empty_log() -> None:
    bench = Bench()
    assert (bench.core.epoch, bench.core.state, bench.core.leader_id) == (0, State.UNATTACHED, -1)
    assert (bench.core.log_end_offset, bench.core.high_watermark) == (0, 0)
    assert ElectionState() == ElectionState(epoch=0, leader_id=-1, voted_id=-1)


def test_every_record_has_the_epoch_in_which_its_leader_took_it() -> None:
    bench = Bench(log=log_of(1, 1, 2), stored=ElectionState(6)).become_leader()
    bench.core.propose([b"a"])
    bench.perform()
    assert [bench.log.epoch_at(offset) for offset in range(5)] == [1, 1, 2, 7, 7]


@pytest.mark.parametrize("stored", [ElectionState(2, 2, -1), ElectionState(2, 1, 1), ElectionState(2)])
def test_high_watermark_begins_at_the_log_start_after_a_restart(stored: ElectionState) -> None:
    assert Bench(log=log_of(1, 1, 2), stored=stored).core.high_watermark == 0
    log = log_of(1, 1, 2)
    log.cut_prefix(log.take_snapshot(1).end_offset)
    assert Bench(log=log, stored=stored).core.high_watermark == 1


def test_leader_sends_from_the_offset_that_the_follower_asks_for() -> None:
    bench = leader_of_epoch_1()
    for value in (b"a", b"b", b"c"):
        bench.core.propose([value])
    bench.perform()
    for offset in (3, 1, 2):
        assert values_of(answered(bench, fetch(3, 1, offset, 1)).records) == [b"a", b"b", b"c"][offset - 1 :]


def test_new_leader_counts_no_ack_of_an_earlier_leadership() -> None:
    bench = leader_of_epoch_1()
    bench.core.propose([b"a"])
    bench.perform()
    bench.request(BeginQuorumEpochRequest(CLUSTER, 3, 2, 1))
    bench.take_sent()
    bench.become_leader()
    leadership = bench.core.leadership
    assert leadership is not None and bench.core.epoch == 3
    assert [replica.acked_offset for replica in leadership.replicas.voters()] == [-1, -1]
    assert (bench.core.log_end_offset, bench.core.high_watermark) == (3, 1)
    answered(bench, fetch(2, 3, 3, 3))
    assert bench.core.high_watermark == 3


def test_ack_that_falls_lowers_no_high_watermark() -> None:
    bench = leader_of_epoch_1()
    assert answered(bench, fetch(2, 1, 0, -1)).high_watermark == 1
    bench.core.propose([b"a"])
    bench.perform()
    assert bench.core.high_watermark == 1
    answered(bench, fetch(2, 1, 2, 1))
    assert bench.core.high_watermark == 2


# -- AppendEntries and RequestVote -------------------------------------------------------------------------------------


def test_answer_that_comes_twice_is_appended_once() -> None:
    bench = in_state(State.FOLLOWER)
    bench.request(BeginQuorumEpochRequest(CLUSTER, 3, LATER, 1))
    (asked,) = bench.take_sent()
    answer = FetchMetadataResponse(3, LATER, 0, 0, batch(b"a", 2, LATER))
    bench.answer(asked, answer)
    bench.answer(asked, answer)
    assert bench.log.log_end_offset == 3
    assert bench.core.statistics().answers_dropped == 1


@pytest.mark.parametrize("pre_vote", [True, False])
def test_vote_request_tells_the_end_of_the_log(pre_vote: bool) -> None:
    bench = Bench(log=log_of(4, 5), stored=ElectionState(EPOCH))
    bench.become_prospective() if pre_vote else bench.become_candidate()
    requests = [message.request for message in bench.take_sent()][-2:]
    epoch = EPOCH if pre_vote else EPOCH + 1
    assert requests == [VoteRequest(CLUSTER, epoch, 1, voter, *LOG_END, pre_vote) for voter in (2, 3)]


# -- rules for servers -------------------------------------------------------------------------------------------------

REQUESTS: dict[str, tuple[Request, set[State]]] = {
    "vote": (vote(LATER), {State.VOTED}),
    "vote for a log that is behind": (vote(LATER, last=(1, 1)), {State.UNATTACHED}),
    "pre-vote": (vote(LATER, pre=True), {State.UNATTACHED}),
    "begin": (BeginQuorumEpochRequest(CLUSTER, 3, LATER, 1), {State.FOLLOWER}),
    "end": (EndQuorumEpochRequest(CLUSTER, 3, LATER, ()), {State.UNATTACHED}),
}
ASKING: dict[str, tuple[State, type[Request], Response]] = {
    "pre-vote": (State.PROSPECTIVE, VoteRequest, VoteResponse(-1, LATER)),
    "vote": (State.CANDIDATE, VoteRequest, VoteResponse(-1, LATER)),
    "fetch": (State.FOLLOWER, FetchMetadataRequest, FetchMetadataResponse(-1, LATER, error_code=74)),
    "notice": (State.LEADER, BeginQuorumEpochRequest, BeginQuorumEpochResponse(-1, LATER, 74)),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", REQUESTS)
def test_later_epoch_in_any_request_is_taken_over(kind: str, state: State) -> None:
    bench = in_state(state)
    request, becomes = REQUESTS[kind]
    response = bench.request(request)
    assert response is not None and (response.error_code, response.leader_epoch) == (0, LATER)
    assert bench.core.epoch == LATER and bench.core.state in becomes
    assert bench.store.state is not None and bench.store.state.epoch == LATER
    assert bench.core.leadership is None


@pytest.mark.parametrize("kind", ASKING)
def test_later_epoch_in_any_answer_is_taken_over(kind: str) -> None:
    state, asked, answer = ASKING[kind]
    bench = on_the_way_to(state)
    question = next(sent for sent in reversed(bench.take_sent()) if isinstance(sent.request, asked))
    bench.answer(question, answer)
    assert (bench.core.state, bench.core.epoch) == (State.UNATTACHED, LATER)
    assert bench.store.state == ElectionState(LATER)


@pytest.mark.parametrize("state", State)
def test_every_request_is_answered_in_every_state(state: State) -> None:
    bench = in_state(state)
    epoch = bench.core.epoch
    requests: list[Request] = [
        vote(epoch, pre=True),
        vote(epoch),
        fetch(3, epoch, 2, 5),
        EndQuorumEpochRequest(CLUSTER, 3, epoch, ()),
        BeginQuorumEpochRequest(CLUSTER, 2, epoch, 1),
    ]
    for request in requests:
        assert bench.request(request) is not None


def test_vote_that_is_given_starts_the_election_timeout_anew() -> None:
    bench = in_state(State.UNATTACHED)
    bench.advance(bench.core.next_deadline_ms() - bench.now_ms - 1)
    bench.request(vote(EPOCH, candidate=2))
    assert bench.core.state is State.VOTED
    assert 1_000 <= bench.core.next_deadline_ms() - bench.now_ms <= 2_000
    bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE


def test_candidacy_starts_the_election_timeout_anew() -> None:
    bench = in_state(State.PROSPECTIVE)
    bench.advance(bench.core.next_deadline_ms() - bench.now_ms)
    questions = bench.take_sent()
    bench.advance(bench.core.next_deadline_ms() - bench.now_ms - 1)
    bench.answer(questions[0], VoteResponse(-1, EPOCH, True))
    assert bench.core.state is State.CANDIDATE
    assert 1_000 <= bench.core.next_deadline_ms() - bench.now_ms <= 2_000


def test_minority_of_the_votes_elects_nobody() -> None:
    bench = Bench(voters=(1, 2, 3, 4, 5)).become_prospective()
    pre_votes = bench.take_sent()
    bench.answer(pre_votes[0], VoteResponse(-1, 0, True))
    assert bench.core.state is State.PROSPECTIVE
    bench.answer(pre_votes[1], VoteResponse(-1, 0, True))
    assert bench.core.state is State.CANDIDATE
    votes = bench.take_sent()
    bench.answer(votes[0], VoteResponse(-1, 1, True))
    bench.answer(votes[1], VoteResponse(-1, 1, False))
    bench.answer(votes[2], VoteResponse(-1, 1, True, error_code=42))
    assert bench.core.state is State.CANDIDATE
    bench.answer(votes[3], VoteResponse(-1, 1, True))
    assert bench.core.state is State.LEADER
