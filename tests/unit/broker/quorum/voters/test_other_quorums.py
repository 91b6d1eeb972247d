"""The question of an only voter before it begins: servers know a quorum, know none, or are silent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from broker.node.commands.initial_controllers import QuorumOptions
from broker.quorum.voters.other_quorums import OtherQuorums, is_only_beginner
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InconsistentClusterIdError,
    MetaPropertiesError,
    NetworkError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)
from penstock.types import Endpoint
from raft.messages import FetchMetadataRequest, FetchMetadataResponse, Request, Response, VoteResponse
from raft.quorum_state import ElectionState
from tests.support.memory_cluster import MemoryCluster, in_service, run_in_memory
from tests.support.voters import disk_of, voters_of, voters_on_disks

SERVERS = {-2: Endpoint("one", 9193), -3: Endpoint("two", 9193)}
NONE_KNOWN = FetchMetadataResponse(error_code=NotLeaderOrFollowerError.code)
ANOTHERS = FetchMetadataResponse(3, 9, error_code=InconsistentClusterIdError.code)


@dataclass
class Servers:
    """Bootstrap servers, by what each answers."""

    answers: dict[int, Response | ApiError]
    asked: list[Request] = field(default_factory=list)

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        self.asked.append(request)
        answer = self.answers[node_id]
        if isinstance(answer, ApiError):
            raise answer
        return answer


def ask(first: Response | ApiError, second: Response | ApiError) -> Servers:
    servers = Servers({-2: first, -3: second})
    asyncio.run(OtherQuorums(servers, SERVERS, "c", 1, disk_of(1)).require_none())
    return servers


@pytest.mark.parametrize(
    "silent", [NetworkError("refused"), RequestTimedOutError("late"), NONE_KNOWN, ANOTHERS, VoteResponse(2, 5)]
)
def test_a_quorum_begins_where_no_server_knows_one(silent: Response | ApiError) -> None:
    servers = ask(silent, NONE_KNOWN)
    assert [type(request) for request in servers.asked] == [FetchMetadataRequest] * 2
    assert all(request.cluster_id == "c" for request in servers.asked)


def test_one_server_that_has_been_in_an_epoch_is_enough_to_refuse_the_start() -> None:
    known = FetchMetadataResponse(7, 5, error_code=FencedLeaderEpochError.code)
    with pytest.raises(MetaPropertiesError, match=r"two:9193 knows its epoch 5, led by controller 7.*--join"):
        ask(NetworkError("refused"), known)
    without_leader = FetchMetadataResponse(leader_epoch=5, error_code=FencedLeaderEpochError.code)
    with pytest.raises(MetaPropertiesError, match=r"one:9193 knows its epoch 5\. This"):
        ask(without_leader, NONE_KNOWN)


@dataclass
class LateServers(Servers):
    """Bootstrap servers of which one answers nothing at first."""

    silent_times: int = 2

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        if node_id == -3 and self.silent_times > 0:
            self.silent_times -= 1
            raise NetworkError("not up yet")
        return await super().send(node_id, request, timeout_ms)


def together(servers: Servers) -> list[str]:
    """Asks in virtual time; returns a word for each time that the disk was made one that joins."""
    made: list[str] = []

    async def story(_: MemoryCluster) -> None:
        question = OtherQuorums(servers, SERVERS, "c", 1, disk_of(1), lambda: made.append("joiner"))
        await question.require_none()

    run_in_memory(1, story, nodes=1)
    return made


def test_controllers_that_begin_together_wait_for_the_answer_of_each() -> None:
    servers = LateServers({-2: NONE_KNOWN, -3: NONE_KNOWN})
    assert together(servers) == [] and servers.silent_times == 0
    assert len(servers.asked) == 2, "who has answered is not asked again"


def test_a_new_disk_of_a_cluster_that_runs_joins_though_the_first_answer_comes_late() -> None:
    known = FetchMetadataResponse(7, 5, error_code=FencedLeaderEpochError.code)
    made: list[str] = []
    servers = LateServers({-2: NONE_KNOWN, -3: known})

    async def story(_: MemoryCluster) -> None:
        question = OtherQuorums(servers, SERVERS, "c", 1, disk_of(1), lambda: made.append("joiner"))
        with pytest.raises(MetaPropertiesError, match=r"two:9193 knows its epoch 5.*joins it: start it again"):
            await question.require_none()

    run_in_memory(1, story, nodes=1)
    assert made == ["joiner"]


def test_only_an_only_voter_that_has_not_begun_asks() -> None:
    alone = voters_on_disks(1)
    assert is_only_beginner(alone, 1, None, 0) and is_only_beginner(alone, 1, ElectionState(), 0)
    assert not is_only_beginner(alone, 1, ElectionState(epoch=1), 0), "others may have heard of its own epoch"
    assert not is_only_beginner(alone, 1, None, 4)
    assert not is_only_beginner(alone, 2, None, 0), "it joins"
    assert not is_only_beginner(voters_on_disks(1, 2), 1, None, 0), "it needs the other's vote"
    assert not is_only_beginner(voters_of(1), 1, None, 0), "a static quorum is named by its file"


def test_a_node_that_would_begin_a_second_quorum_does_not_start_and_one_that_begins_the_first_does() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        await cluster.start(1)
        cluster.replace_disk(1, QuorumOptions(standalone=True))
        second = cluster.node(1)
        with pytest.raises(MetaPropertiesError, match="has a quorum already"):
            await second.start()
        await second.stop()
        assert second.quorum.raft.core is None, "it took no part in any quorum"
        assert cluster.nodes[0].leader_id == 0
        await cluster.stop()

    run_in_memory(7, story)


def test_an_only_voter_starts_again_without_a_question() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        await cluster.start()
        for _ in range(2):
            await cluster.cut_power()
            await cluster.start()
        assert cluster.nodes[0].leader_id == 0
        await cluster.stop()

    run_in_memory(8, story)


def test_a_cluster_that_begins_together_lets_a_new_disk_of_its_first_controller_join() -> None:
    """The whole cluster was stopped meanwhile, so nobody answers when the new disk starts."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.begins_together = True
        cluster.format_dynamic(0)
        first = cluster.node(0)
        starting = asyncio.create_task(first.start())
        await asyncio.sleep(60)
        assert not starting.done(), "the others are not there yet"
        cluster.nodes += [first, cluster.node(1), cluster.node(2)]
        await asyncio.gather(starting, *(node.start() for node in cluster.nodes[1:]))
        await asyncio.gather(*map(in_service, cluster.nodes))
        while len(first.raft.voters) < 3:  # noqa: ASYNC110
            await asyncio.sleep(1)
        await cluster.stop()

        cluster.replace_disk(0, QuorumOptions(standalone=True))
        anew = cluster.node(0)
        beginning = asyncio.create_task(anew.start())
        await asyncio.sleep(60)
        others = [cluster.node(1), cluster.node(2)]
        await asyncio.gather(*(node.start() for node in others))
        with pytest.raises(MetaPropertiesError, match="joins it: start it again"):
            await beginning
        await anew.stop()

        cluster.nodes += [cluster.node(0), *others]
        await cluster.nodes[0].start()
        await asyncio.gather(*map(in_service, cluster.nodes))
        disk = cluster.voter(0).directory_id
        while not cluster.nodes[0].raft.voters.names(0, disk):  # noqa: ASYNC110
            await asyncio.sleep(1)
        assert len(cluster.nodes[0].raft.voters) == 3, "the old disk is no voter any more"
        await cluster.stop()

    run_in_memory(9, story, nodes=3, config={"controller.quorum.auto.join.enable": True})
