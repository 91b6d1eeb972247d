"""A controller is asked at its address whether it is the one that was named, before it becomes a voter."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.quorum.voters.newcomers import Newcomers
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InconsistentClusterIdError,
    InvalidRequestError,
    NetworkError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from penstock.messages.voters import AddVoterRequest, VoterChangeResponse
from penstock.types import Endpoint, ListenerEndpoint
from raft.messages import VoteRequest, VoteResponse
from raft.voters import Voter
from tests.support.memory_cluster import MemoryCluster, run_in_memory
from tests.support.voters import disk_of, endpoints_of

NEWCOMER = Voter(4, disk_of(4), endpoints_of(4))


@dataclass
class Other:
    """The node at the address: it answers, or the call fails."""

    answer: VoteResponse | ApiError
    asked: list[tuple[int, VoteRequest]] = field(default_factory=list)
    is_closed: bool = False

    async def send(self, node_id: int, request: Any, timeout_ms: int) -> VoteResponse:
        self.asked.append((node_id, request))
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.is_closed = True


def check(answer: VoteResponse | ApiError) -> Other:
    other = Other(answer)

    def transport_to(endpoint: Endpoint) -> Any:
        assert endpoint == NEWCOMER.endpoint(CONTROLLER_LISTENER)
        return other

    asyncio.run(Newcomers(transport_to, "cluster", 1, disk_of(1), lambda: 7).check(NEWCOMER, 500))
    return other


def test_the_question_changes_nothing_and_is_meant_for_that_disk() -> None:
    for answer in (VoteResponse(1, 7), VoteResponse(1, 8, error_code=FencedLeaderEpochError.code)):
        other = check(answer)
        ((node_id, request),) = other.asked
        assert (node_id, request.voter_id, request.voter_directory_id) == (4, 4, disk_of(4))
        assert request.pre_vote and request.candidate_epoch == 7 and other.is_closed


@pytest.mark.parametrize("error", [NetworkError("refused"), RequestTimedOutError("late")])
def test_who_does_not_answer_may_be_asked_again(error: ApiError) -> None:
    with pytest.raises(RequestTimedOutError, match=r"controller 4 does not answer at.*such as room on its disk"):
        check(error)


@pytest.mark.parametrize(
    "answer",
    [
        UnsupportedVersionError("a broker does not know this call"),
        VoteResponse(error_code=InvalidRequestError.code, error_message="not meant for node 3"),
        VoteResponse(error_code=InconsistentClusterIdError.code, error_message="this is cluster x"),
    ],
    ids=["broker", "another node or disk", "another cluster"],
)
def test_another_node_at_the_address_is_no_newcomer(answer: VoteResponse | ApiError) -> None:
    with pytest.raises(InvalidRequestError, match="is not controller 4"):
        check(answer)


def test_nodes_add_no_voter_at_the_address_of_another_one() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        await cluster.start()
        one, two = cluster.voter(1), cluster.voter(2)
        nobody = (ListenerEndpoint(CONTROLLER_LISTENER, Endpoint("127.0.0.1", 1)),)

        async def add(endpoints: tuple[ListenerEndpoint, ...]) -> ApiError | None:
            request = AddVoterRequest(1, one.directory_id or "", endpoints, timeout_ms=5_000)
            answer: VoterChangeResponse = await cluster.ask(cluster.endpoint(0), "AddVoter", request)
            return answer.error

        assert isinstance(await add(two.endpoints), InvalidRequestError)
        assert isinstance(await add(nobody), RequestTimedOutError)
        assert cluster.nodes[0].quorum.raft.voters.ids == (0,)
        assert await add(one.endpoints) is None
        assert cluster.nodes[0].quorum.raft.voters.ids == (0, 1)
        await cluster.stop()

    run_in_memory(8, story)
