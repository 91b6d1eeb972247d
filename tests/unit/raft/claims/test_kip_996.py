"""The claims of KIP-996 about pre-votes that no other test proves; the table is kip_996.py."""

from __future__ import annotations

import pytest

from broker.grpc import quorum_codec as quorum
from penstock.pb import quorum_pb2 as pb
from raft.messages import BeginQuorumEpochRequest, RequestFailed, VoteRequest, VoteResponse
from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import CLUSTER, Bench
from tests.unit.raft.claims.states import EPOCH, in_state, on_the_way_to

UNSUPPORTED_VERSION, FENCED_LEADER_EPOCH = 35, 74
WITHOUT_LEADER = [State.UNATTACHED, State.VOTED, State.PROSPECTIVE, State.CANDIDATE, State.RESIGNED]


def vote(epoch: int, *, candidate: int = 3, pre: bool = True, last: tuple[int, int] = (EPOCH, 2)) -> VoteRequest:
    return VoteRequest(CLUSTER, epoch, candidate, 1, last[0], last[1], pre)


def answer_to(bench: Bench, request: VoteRequest) -> VoteResponse:
    response = bench.request(request)
    assert isinstance(response, VoteResponse)
    return response


def test_voter_that_reaches_nobody_never_raises_its_epoch() -> None:
    bench = in_state(State.FOLLOWER)
    began_ms = bench.now_ms
    while bench.now_ms - began_ms < 60_000:
        bench.advance_to_deadline()
        for sent in bench.take_sent():
            bench.core.step(RequestFailed(sent.correlation_id), bench.now_ms)
    assert (bench.core.state, bench.core.epoch, bench.store.saves) == (State.PROSPECTIVE, EPOCH, [])
    assert bench.core.statistics().pre_vote_rounds > 20


@pytest.mark.parametrize("state", State)
def test_pre_vote_for_a_log_that_is_behind_is_refused_in_every_state(state: State) -> None:
    bench = in_state(state)
    for last in ((EPOCH, 1), (EPOCH - 1, 9), (-1, 0)):
        assert not answer_to(bench, vote(bench.core.epoch, last=last)).vote_granted
    assert (bench.core.state, bench.store.saves) == (state, [])


@pytest.mark.parametrize("state", [State.UNATTACHED, State.VOTED, State.RESIGNED, State.FOLLOWER])
def test_every_state_that_waits_for_a_leader_becomes_prospective_in_its_epoch(state: State) -> None:
    bench = in_state(state)
    bench.advance_to_deadline()
    assert (bench.core.state, bench.core.epoch, bench.store.saves) == (State.PROSPECTIVE, EPOCH, [])


def test_prospective_follows_the_leader_that_refuses_it_or_makes_itself_known() -> None:
    leader = in_state(State.LEADER)
    refusal = answer_to(leader, vote(leader.core.epoch, last=(9, 9)))
    assert refusal == VoteResponse(1, leader.core.epoch, False)

    bench = on_the_way_to(State.PROSPECTIVE)
    bench.answer(bench.take_sent()[0], VoteResponse(2, EPOCH, False))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 2)

    bench = in_state(State.PROSPECTIVE)
    bench.request(BeginQuorumEpochRequest(CLUSTER, 3, EPOCH, 1))
    assert (bench.core.state, bench.core.leader_id) == (State.FOLLOWER, 3)


def test_prospective_gives_its_vote_once() -> None:
    bench = in_state(State.PROSPECTIVE)
    assert answer_to(bench, vote(EPOCH, candidate=3, pre=False)).vote_granted
    assert bench.store.state == ElectionState(EPOCH, -1, 3)
    bench.advance_to_deadline()
    assert bench.core.state is State.PROSPECTIVE
    assert not answer_to(bench, vote(EPOCH, candidate=2, pre=False)).vote_granted
    assert answer_to(bench, vote(EPOCH, candidate=3, pre=False)).vote_granted


def test_request_without_the_flag_is_a_vote() -> None:
    decoded = quorum.vote_from_pb(pb.VoteRequest(cluster_id=CLUSTER, candidate_epoch=EPOCH, candidate_id=3, voter_id=1))
    assert decoded == VoteRequest(CLUSTER, EPOCH, 3, 1, 0, 0, False)


@pytest.mark.parametrize("state", WITHOUT_LEADER)
def test_pre_vote_is_granted_by_whoever_has_no_leader_and_changes_nothing(state: State) -> None:
    bench = in_state(state)
    before = bench.store.state, bench.core.next_deadline_ms(), bench.core.epoch
    for candidate in (2, 3, 2):
        response = answer_to(bench, vote(bench.core.epoch, candidate=candidate))
        assert response == VoteResponse(-1, bench.core.epoch, True)
    assert (bench.store.state, bench.core.next_deadline_ms(), bench.core.epoch) == before
    assert (bench.core.state, bench.store.saves, bench.take_sent()) == (state, [], [])


@pytest.mark.parametrize("state", State)
def test_epoch_of_a_pre_vote_is_taken_over_or_fenced(state: State) -> None:
    bench = in_state(state)
    epoch = bench.core.epoch
    refused = answer_to(bench, vote(epoch - 1, last=(9, 9)))
    assert (refused.error_code, refused.leader_epoch, bench.core.state) == (FENCED_LEADER_EPOCH, epoch, state)
    granted = answer_to(bench, vote(epoch + 1, last=(9, 9)))
    assert granted == VoteResponse(-1, epoch + 1, True)
    assert (bench.core.state, bench.store.state) == (State.UNATTACHED, ElectionState(epoch + 1))


def test_late_pre_vote_does_not_count_as_a_vote() -> None:
    bench = Bench(voters=(1, 2, 3, 4, 5)).become_prospective()
    pre_votes = bench.take_sent()
    for question in pre_votes[:2]:
        bench.answer(question, VoteResponse(-1, 0, True))
    assert bench.core.state is State.CANDIDATE
    for question in pre_votes[2:]:
        bench.answer(question, VoteResponse(-1, 1, True))
    assert bench.core.state is State.CANDIDATE
    assert bench.core.statistics().answers_dropped == 2


def test_voter_that_refuses_the_request_grants_nothing() -> None:
    bench = on_the_way_to(State.PROSPECTIVE)
    for question in bench.take_sent():
        bench.answer(question, VoteResponse(-1, EPOCH, True, error_code=UNSUPPORTED_VERSION))
    assert (bench.core.state, bench.core.epoch) == (State.PROSPECTIVE, EPOCH)
