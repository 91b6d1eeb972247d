"""Bad requests: every field missing, empty, negative or huge gets an exact error and changes nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InconsistentClusterIdError, InvariantViolation
from penstock.types import EpochEndOffset
from raft.messages import (
    AnswerReceived,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotRequest,
    Request,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
    VoteRequest,
    VoteResponse,
)
from raft.quorum_state import EPOCH_JUMP_MAX, EPOCH_MAX, ElectionState, State
from tests.support.amount import usually
from tests.support.raft_bench import CLUSTER, Bench, log_of

VOTE = VoteRequest(CLUSTER, 5, 2, 1, 5, 9, False)
BEGIN = BeginQuorumEpochRequest(CLUSTER, 2, 5, 1)
END = EndQuorumEpochRequest(CLUSTER, 2, 5, (3, 1))
FETCH = FetchMetadataRequest(CLUSTER, 2, 5, 0, -1, 0, 1000)
SNAPSHOT = FetchSnapshotRequest(CLUSTER, 2, 5, EpochEndOffset(4, 7), 0, 1000)

ROWS: list[tuple[Request, dict[str, Any], int]] = [
    *((request, {"cluster_id": other}, 104) for request in (VOTE, BEGIN, END, FETCH) for other in ("", "other")),
    (VOTE, {"candidate_epoch": -1}, 42),
    (VOTE, {"candidate_epoch": EPOCH_MAX}, 42),
    (VOTE, {"candidate_epoch": 4}, 74),
    (VOTE, {"candidate_epoch": 6 + EPOCH_JUMP_MAX}, 75),
    (VOTE, {"candidate_epoch": 2**31 - 3}, 75),
    (VOTE, {"candidate_epoch": 2**31 - 3, "pre_vote": True}, 75),
    (BEGIN, {"leader_epoch": 2**31 - 3}, 75),
    (END, {"leader_epoch": 2**31 - 3}, 75),
    (VOTE, {"candidate_id": 1}, 42),
    (VOTE, {"candidate_id": 9}, 42),
    (VOTE, {"candidate_id": -1}, 42),
    (VOTE, {"voter_id": 3}, 42),
    (VOTE, {"last_epoch": -2}, 42),
    (VOTE, {"last_epoch_end_offset": -1}, 42),
    (BEGIN, {"leader_epoch": 0}, 42),
    (BEGIN, {"leader_epoch": EPOCH_MAX}, 42),
    (BEGIN, {"leader_epoch": 4}, 74),
    (BEGIN, {"leader_id": 9}, 42),
    (BEGIN, {"leader_id": 1}, 42),
    (BEGIN, {"voter_id": 2}, 42),
    (END, {"leader_epoch": -3}, 42),
    (END, {"leader_epoch": 4}, 74),
    (END, {"leader_id": 0}, 42),
    (END, {"preferred_successors": (1,) * 1_000}, 42),
    (FETCH, {"replica_id": -1}, 42),
    (FETCH, {"replica_id": 1}, 42),
    (FETCH, {"fetch_offset": -1}, 42),
    (FETCH, {"incarnation_id": "x" * 256}, 42),
    (FETCH, {"incarnation_id": "x" * 255}, 6),
    (FETCH, {"last_fetched_epoch": -2}, 42),
    (FETCH, {"current_leader_epoch": -1}, 74),
    (FETCH, {"current_leader_epoch": 4}, 74),
    (FETCH, {"current_leader_epoch": 6}, 75),
    (FETCH, {}, 6),
    (FETCH, {"replica_directory_id": "x" * 256}, 42),
    (FETCH, {"replica_directory_id": "x" * 255}, 6),
    (SNAPSHOT, {"replica_directory_id": "x" * 256}, 42),
    (SNAPSHOT, {"replica_directory_id": "x" * 255}, 6),
    (SNAPSHOT, {"incarnation_id": "x" * 256}, 42),
    (VOTE, {"candidate_directory_id": "x" * 256}, 42),
    (VOTE, {"voter_directory_id": "x" * 256}, 42),
]


@pytest.mark.parametrize(("request_", "changes", "code"), ROWS, ids=lambda value: str(value)[:40])
def test_bad_request_gets_its_error_and_changes_nothing(request_: Request, changes: dict[str, Any], code: int) -> None:
    bench = Bench(stored=ElectionState(5), log=log_of(5))
    response = bench.request(replace(request_, **changes))
    assert response is not None
    assert (response.error_code, response.leader_epoch) == (code, 5)
    assert response.error_message
    assert bench.store.saves == []
    assert bench.core.statistics().requests_rejected == 1


def test_plausible_jump_of_the_epoch_is_believed_and_an_implausible_one_is_counted() -> None:
    bench = Bench(stored=ElectionState(5), log=log_of(5))
    bench.request(replace(VOTE, candidate_epoch=6 + EPOCH_JUMP_MAX))
    assert (bench.core.epoch, bench.core.statistics().epoch_jumps_refused) == (5, 1)
    bench.request(replace(VOTE, candidate_epoch=5 + EPOCH_JUMP_MAX))
    assert (bench.core.epoch, bench.core.statistics().epoch_jumps_refused) == (5 + EPOCH_JUMP_MAX, 1)
    bench.request(replace(FETCH, current_leader_epoch=2**31 - 3))
    assert bench.core.statistics().epoch_jumps_refused == 1


def test_voter_that_was_away_for_many_epochs_learns_the_epoch_from_an_answer_to_its_own_question() -> None:
    bench = Bench(stored=ElectionState(5), log=log_of(5)).become_prospective()
    pre_vote = bench.take_sent()[0]
    bench.answer(pre_vote, VoteResponse(pre_vote.to, 90_000, error_code=74))
    assert (bench.core.state, bench.core.epoch, bench.core.leader_id) == (State.FOLLOWER, 90_000, pre_vote.to)


def test_the_epoch_and_the_leader_of_another_cluster_are_not_believed() -> None:
    """An address led to a node of another cluster. It refuses, and names a leader of its own."""
    bench = Bench(stored=ElectionState(5), log=log_of(5)).become_prospective()
    pre_vote = bench.take_sent()[0]
    bench.answer(pre_vote, VoteResponse(pre_vote.to, 90, error_code=InconsistentClusterIdError.code))
    assert (bench.core.epoch, bench.core.leader_id) == (5, -1)
    observer = Bench(node_id=9, stored=ElectionState(5))
    observer.advance_to_deadline()
    (question,) = observer.take_sent()
    answer = FetchMetadataResponse(7, 90, error_code=InconsistentClusterIdError.code)
    observer.answer(question, answer)
    assert (observer.core.epoch, observer.core.leader_id) == (5, -1)
    observer.advance_to_deadline()
    assert observer.take_sent(), "it asks again"


def test_observer_takes_no_part_in_elections() -> None:
    bench = Bench(node_id=9, stored=ElectionState(5))
    for request in (replace(VOTE, voter_id=9), replace(BEGIN, voter_id=9), replace(END, preferred_successors=(9,))):
        response = bench.request(request)
        assert response is not None and response.error_code == 42


def test_end_of_an_epoch_without_successors_is_fine() -> None:
    bench = Bench(stored=ElectionState(5, 2))
    response = bench.request(replace(END, preferred_successors=()))
    assert response is not None and response.error_code == 0


_numbers = st.sampled_from([-(2**63), -2, -1, 0, 1, 2, 3, 4, 9, 2**31 - 2, 2**31 - 1, 2**63 - 1])
_epoch_ends = st.none() | st.builds(EpochEndOffset, _numbers, _numbers)
_values: dict[str, st.SearchStrategy[Any]] = {
    "int": _numbers,
    "str": st.sampled_from(["", CLUSTER, "x"]),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=80),
    "tuple[int, ...]": st.lists(_numbers, max_size=3).map(tuple),
    "tuple[ListenerEndpoint, ...]": st.just(()),
    "EpochEndOffset | None": _epoch_ends,
}


def _any_of(message: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(message, **{field.name: _values[str(field.type)] for field in fields(message)})


_requests = st.one_of(
    *map(_any_of, (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchMetadataRequest))
)
_responses = st.one_of(
    *map(_any_of, (VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse, FetchMetadataResponse))
)
_inbound = st.one_of(
    st.builds(RequestReceived, st.integers(1, 9), _requests),
    st.builds(AnswerReceived, st.integers(0, 12), _responses),
    st.builds(RequestFailed, st.integers(0, 12)),
    st.builds(RequestAbandoned, st.integers(0, 12)),
)


@settings(max_examples=usually(37, long=150), derandomize=True, deadline=None)
@given(st.sampled_from([1, 9]), st.lists(st.tuples(st.integers(0, 900), _inbound), max_size=25))
def test_core_survives_any_sequence_of_messages(node_id: int, history: list[tuple[int, Any]]) -> None:
    bench = Bench(node_id=node_id, log=log_of(1, 2), stored=ElectionState(2))
    for pause_ms, inbound in history:
        bench.advance(pause_ms)
        try:
            bench.core.step(inbound, bench.now_ms)
        except InvariantViolation as refused:
            assert "committed" in str(
                refused
            )  # the one thing that may stop a node: being told to cut committed records
            return
        bench.perform()
        assert bench.core.high_watermark <= bench.core.log_end_offset
        assert bench.core.next_deadline_ms() > bench.now_ms - 1_000
