"""Every quorum RPC answers a message with fields missing, and every answer with fields missing is survived."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from broker.grpc import quorum_codec as quorum
from broker.grpc.callers import AnonymousCallers
from broker.grpc.controller_calls import quorum_calls
from broker.grpc.incoming.turned_decoder import DecodedMessage
from broker.network.request_channel import Caller
from penstock.errors import InconsistentClusterIdError, InvalidRequestError, NetworkError
from penstock.messages.apis import APIS
from penstock.pb import quorum_pb2 as pb
from penstock.types import Endpoint, EpochEndOffset
from raft.config import RaftConfig
from raft.driver.driver import RaftDriver
from raft.messages import (
    BeginQuorumEpochRequest,
    FetchMetadataRequest,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
)
from raft.quorum_state import ElectionState, Forgotten
from tests.support.raft_fakes import InlineExecutor, MemoryLog, MemoryStore
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.support.voters import voters_of

REQUESTS: list[tuple[str, Any]] = [
    ("Vote", pb.VoteRequest),
    ("BeginQuorumEpoch", pb.BeginQuorumEpochRequest),
    ("EndQuorumEpoch", pb.EndQuorumEpochRequest),
    ("FetchMetadata", pb.FetchMetadataRequest),
]
EMPTY_ANSWERS: dict[type[Request], Any] = {
    VoteRequest: pb.VoteResponse,
    BeginQuorumEpochRequest: pb.BeginQuorumEpochResponse,
    FetchMetadataRequest: pb.FetchMetadataResponse,
}


class EmptyAnswers:
    """The other voters, which answer every question with a message that has no field at all."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        self.asked += 1
        if type(request) not in EMPTY_ANSWERS:
            raise NetworkError("nobody there")
        await asyncio.sleep(0.01)
        return quorum.response_from_pb(EMPTY_ANSWERS[type(request)]())


def voter(others: EmptyAnswers, fatal: list[BaseException], state: ElectionState) -> RaftDriver:
    config = RaftConfig("c", 1, voters_of(0, 1, 2), election_timeout_ms=200, fetch_timeout_ms=600)
    store = MemoryStore(state)
    return RaftDriver(config, MemoryLog(), store, others, virtual_clock(), Random(1), InlineExecutor(), fatal.append)


@pytest.mark.parametrize(("rpc", "message"), REQUESTS, ids=[rpc for rpc, _ in REQUESTS])
@pytest.mark.parametrize(
    ("cluster_id", "code"), [("", InconsistentClusterIdError.code), ("c", InvalidRequestError.code)]
)
def test_request_without_fields_gets_a_typed_answer(rpc: str, message: Any, cluster_id: str, code: int) -> None:
    async def scenario() -> None:
        fatal: list[BaseException] = []
        driver = voter(EmptyAnswers(), fatal, ElectionState())
        await driver.start()
        request = message(cluster_id=cluster_id)
        if rpc == "FetchMetadata" and cluster_id:
            request.replica_id = -1  # without it, it is a good fetch of node 0
        calls, encoded = quorum_calls(driver.handle, AnonymousCallers("CONTROLLER")), request.SerializeToString()
        raw = await calls[APIS[rpc]](
            DecodedMessage(quorum.request_from_bytes(rpc)(encoded), False), cast("Any", None), Caller(Endpoint("h", 1))
        )
        answer: Any = quorum.CALLS[rpc].response.FromString(raw)
        assert answer.error.code == code and answer.error.message
        await driver.stop()
        assert fatal == []

    run_virtual(scenario())


@pytest.mark.parametrize("forgotten", Forgotten)
def test_answers_without_fields_elect_nobody_and_end_nothing(forgotten: Forgotten) -> None:
    async def scenario() -> None:
        fatal: list[BaseException] = []
        others = EmptyAnswers()
        driver = voter(others, fatal, ElectionState(forgotten=forgotten))
        await driver.start()
        await asyncio.sleep(20)
        assert others.asked > 10 and not driver.is_leader and fatal == []
        assert driver.has_forgotten is (forgotten is not Forgotten.NOTHING)
        await driver.stop()

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("asked", "back"),
    [
        (FetchMetadataRequest("c", 2, 5, 7, 4, 500, 1 << 20, "process"), quorum.fetch_from_pb),
        (FetchSnapshotRequest("c", 2, 5, EpochEndOffset(4, 7), 3, 100, "process"), quorum.fetch_snapshot_from_pb),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fetch_brings_all_that_it_says_and_one_of_an_older_node_names_no_process(asked: Any, back: Any) -> None:
    message = quorum.request_to_pb(asked)
    assert back(message) == asked
    message.ClearField("incarnation_id")
    assert back(message) == replace(asked, incarnation_id="")
