"""A node finds the leader of a quorum whose voters change, by what it was told last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from broker.quorum.quorum_addresses import ENDPOINTS_MAX, QuorumAddresses, bootstrap_ids
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import InconsistentClusterIdError, InvalidRequestError
from penstock.types import Endpoint, ListenerEndpoint
from raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchMetadataRequest,
    FetchMetadataResponse,
    Request,
    Response,
    VoteResponse,
)
from raft.voters import Voter, VoterSet
from tests.support.voters import voters_at

SERVERS = (Endpoint("one", 9193), Endpoint("two", 9193))
BEGIN = BeginQuorumEpochRequest("cluster", 1, 7, 2)


def at(host: str, port: int = 9193, name: str = CONTROLLER_LISTENER) -> ListenerEndpoint:
    return ListenerEndpoint(name, Endpoint(host, port))


def dynamic(**hosts: str) -> VoterSet:
    return VoterSet(tuple(Voter(int(name[1:]), f"disk-{name}", (at(host),)) for name, host in sorted(hosts.items())))


def addresses(voters: VoterSet, node_id: int = 1, servers: tuple[Endpoint, ...] = ()) -> QuorumAddresses:
    return QuorumAddresses(at("own"), node_id, servers, voters=lambda: voters)


@dataclass
class Other:
    """The other node: what it got, and its answer."""

    answer: Response
    got: list[Request] = field(default_factory=list)

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        self.got.append(request)
        return self.answer


def ask(of: QuorumAddresses, answer: Response, request: Request = BEGIN) -> Request:
    """The request as the other node got it."""
    other = Other(answer)
    asyncio.run(of.sending(other).send(2, request, 1_000))
    return other.got[0]


def answered(of: QuorumAddresses, request: Request, response: Response) -> Response:
    async def handle(request: Request) -> Response:
        return response

    return asyncio.run(of.handling(handle)(request))


def test_bootstrap_servers_are_asked_by_ids_that_are_no_nodes() -> None:
    assert bootstrap_ids(SERVERS) == (-2, -3)
    found = addresses(VoterSet(), servers=SERVERS)
    assert [found.endpoint(node) for node in (-2, -3, -4, -1, 5)] == [*SERVERS, None, None, None]


def test_a_voter_is_reached_as_the_records_say() -> None:
    found = addresses(dynamic(v1="own", v2="second"))
    assert found.endpoint(2) == Endpoint("second", 9193)


def test_a_leader_whose_record_this_node_lacks_is_reached_as_an_answer_says() -> None:
    found = addresses(VoterSet(), node_id=9, servers=SERVERS)
    ask(found, FetchMetadataResponse(4, 7, error_code=6, leader_endpoints=(at("x", 1, "OTHER"), at("fourth"))))
    assert found.endpoint(4) == Endpoint("fourth", 9193)


def test_what_was_said_of_the_newest_epoch_counts_before_older_records_and_words() -> None:
    found = addresses(dynamic(v1="own", v2="old-address"))
    found.note(2, 7, (at("new-address"),))
    found.note(2, 6, (at("older-still"),))
    assert found.endpoint(2) == Endpoint("new-address", 9193)
    found.note(3, 8, (at("third"),))
    assert found.endpoint(2) == Endpoint("old-address", 9193), "as the records say, once it does not lead"


def test_words_without_a_leader_without_endpoints_with_too_many_or_about_itself_change_nothing() -> None:
    found = addresses(dynamic(v1="own", v2="second"))
    found.note(-1, 9, (at("nobody"),))
    found.note(2, 9, ())
    found.note(2, 9, tuple(at("many") for _ in range(ENDPOINTS_MAX + 1)))
    found.note(1, 9, (at("imposed"),))
    assert (found.endpoint(2), found.endpoint(1)) == (Endpoint("second", 9193), Endpoint("own", 9193))


def test_a_new_leader_says_where_it_is_and_the_others_note_it() -> None:
    sent = ask(addresses(dynamic(v1="elsewhere", v2="second")), BeginQuorumEpochResponse(1, 7))
    assert isinstance(sent, BeginQuorumEpochRequest) and sent.leader_endpoints == (at("own"),)
    other = addresses(dynamic(v2="second"), node_id=2)
    answered(other, sent, BeginQuorumEpochResponse(1, 7))
    assert other.endpoint(1) == Endpoint("own", 9193)


def test_an_answer_says_where_the_leader_is_that_it_names() -> None:
    found = addresses(dynamic(v1="own", v2="second"))
    for leader, endpoints in ((1, (at("own"),)), (2, (at("second"),)), (3, ()), (-1, ())):
        answer = answered(found, BEGIN, VoteResponse(leader, 7))
        assert isinstance(answer, VoteResponse) and answer.leader_endpoints == endpoints
    refused = answered(found, BEGIN, FetchMetadataResponse(2, 7, error_code=6))
    assert isinstance(refused, FetchMetadataResponse) and refused.leader_endpoints == (at("second"),)
    good = FetchMetadataResponse(1, 7)
    fetch = FetchMetadataRequest("cluster", 2, 7, 0, -1, 0, 1 << 20)
    assert answered(found, replace(fetch, heard_ms=5), good) is good, "the leader itself answers"
    first = answered(found, fetch, good)
    assert isinstance(first, FetchMetadataResponse) and first.leader_endpoints == (at("own"),), "a server was asked"


def test_static_voters_say_nothing() -> None:
    found = addresses(voters_at(1, 2))
    answer = VoteResponse(2, 7)
    assert answered(found, BEGIN, answer) is answer
    assert ask(found, answer) is BEGIN


def test_a_node_of_another_cluster_is_not_believed() -> None:
    found = addresses(dynamic(v1="own", v2="second"), servers=SERVERS)
    foreign = FetchMetadataResponse(
        2, 900, error_code=InconsistentClusterIdError.code, leader_endpoints=(at("elsewhere"),)
    )
    ask(found, foreign)
    assert found.endpoint(2) == Endpoint("second", 9193)


def test_a_new_leader_that_the_quorum_refuses_is_not_believed() -> None:
    found = addresses(dynamic(v1="own", v2="second"))
    found.note(2, 5, (at("noted"),))
    imposed = BeginQuorumEpochRequest("cluster", 2, 900, 1, (at("elsewhere"),))
    answered(found, imposed, BeginQuorumEpochResponse(2, 5, error_code=InvalidRequestError.code))
    assert found.endpoint(2) == Endpoint("noted", 9193)
