"""A node that is pointed at another cluster is refused; a single wrong voter, or a late one, ends nobody."""

from __future__ import annotations

import asyncio

import pytest

from broker.quorum.cluster_guard import ClusterGuard, Configured
from penstock.errors import InconsistentClusterIdError, MetaPropertiesError, NetworkError
from penstock.types import Endpoint
from raft.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse, Request, Response
from tests.support.voters import voters_at

OURS, FOREIGN, SILENT = "ours", "foreign", "silent"
REQUEST = BeginQuorumEpochRequest("cluster-1", 1, 1, 1)


class Voters:
    """Each answers as it was told to."""

    def __init__(self) -> None:
        self.answers: dict[int, str] = {}

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        answer = self.answers[node_id]
        if answer == SILENT:
            raise NetworkError("no answer")
        code = InconsistentClusterIdError.code if answer == FOREIGN else 0
        return BeginQuorumEpochResponse(1, 1, code, "this is cluster-2" if code else "")


def refusals(node_id: int, voter_count: int, *asked: tuple[int, str]) -> list[BaseException]:
    """The refusals of a node's guard while it asks one voter after the other."""
    return refused(node_id, Configured.voters(voters_at(*range(1, voter_count + 1))), *asked)


def refused(node_id: int, configured: Configured, *asked: tuple[int, str]) -> list[BaseException]:
    voters, said = Voters(), list[BaseException]()
    guard = ClusterGuard(voters, node_id, "cluster-1", configured, said.append)

    async def ask() -> None:
        for voter, answer in asked:
            voters.answers[voter] = answer
            try:
                await guard.send(voter, REQUEST, 1)
            except NetworkError:
                continue

    asyncio.run(ask())
    return said


@pytest.mark.parametrize(
    ("node_id", "voters", "asked"),
    [
        (9, 1, [(1, FOREIGN)]),
        (1, 2, [(2, FOREIGN)]),
        (1, 3, [(2, FOREIGN), (3, FOREIGN)]),
        (9, 3, [(1, SILENT), (2, FOREIGN), (2, FOREIGN), (3, FOREIGN)]),
    ],
)
def test_node_whose_voters_are_of_another_cluster_is_refused_once(
    node_id: int, voters: int, asked: list[tuple[int, str]]
) -> None:
    (refusal,) = refusals(node_id, voters, *asked, *asked)
    assert isinstance(refusal, MetaPropertiesError)
    assert "cluster-1" in str(refusal) and f"host-{voters}:9193 says: this is cluster-2" in str(refusal)


@pytest.mark.parametrize(
    ("node_id", "voters", "asked"),
    [
        (1, 3, [(3, FOREIGN), (3, FOREIGN), (2, SILENT)]),
        (1, 3, [(2, OURS), (3, FOREIGN), (2, FOREIGN)]),
        (9, 3, [(1, OURS), (2, OURS), (3, FOREIGN), (2, FOREIGN), (1, FOREIGN)]),
        (1, 1, []),
    ],
)
def test_node_with_a_majority_of_its_own_is_not_refused_whatever_comes_later(
    node_id: int, voters: int, asked: list[tuple[int, str]]
) -> None:
    assert refusals(node_id, voters, *asked) == []


ONE, TWO = Endpoint("one", 9193), Endpoint("two", 9193)
SERVERS = Configured.servers({-2: ONE, -3: TWO})


def test_node_whose_bootstrap_servers_are_all_of_another_cluster_is_refused_once() -> None:
    (refusal,) = refused(4, SERVERS, (-2, FOREIGN), (-3, SILENT), (-3, FOREIGN), (-2, FOREIGN))
    assert isinstance(refusal, MetaPropertiesError)
    text = str(refusal)
    assert "Correct controller.quorum.bootstrap.servers" in text
    assert "one:9193 says: this is cluster-2" in text and "two:9193 says: this is cluster-2" in text


@pytest.mark.parametrize(
    "asked",
    [
        [(-2, FOREIGN), (-3, SILENT)],
        [(-2, OURS), (-3, FOREIGN), (-2, FOREIGN)],
        [(1, FOREIGN), (2, FOREIGN), (-2, OURS)],
    ],
)
def test_one_bootstrap_server_of_the_right_cluster_is_enough(asked: list[tuple[int, str]]) -> None:
    assert refused(4, SERVERS, *asked) == []


@pytest.mark.parametrize("own_answer", [SILENT, OURS])
def test_the_own_address_among_the_bootstrap_servers_is_no_word_of_the_cluster(own_answer: str) -> None:
    configured = Configured.servers({-2: ONE, -3: TWO}, own=(TWO,))
    (refusal,) = refused(4, configured, (-3, own_answer), (-2, FOREIGN), (-2, FOREIGN))
    assert "one:9193 says: this is cluster-2" in str(refusal)
    assert refused(4, Configured.servers({-2: ONE}, own=(ONE,)), (-2, OURS), (1, FOREIGN)) == []
