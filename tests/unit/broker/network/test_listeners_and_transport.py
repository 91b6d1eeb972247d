"""Every kind of listeners and transport keeps the promises of `broker/network/`: gRPC's over real sockets, and those of
the cluster simulator, on whose network gRPC's objects are other ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.config import parse_config
from broker.connections.listener_limits import shared_by_clients
from broker.grpc.grpc_listeners import GrpcListeners
from broker.grpc.outgoing_calls import Peers
from broker.load.busy_time import BusyTimes
from broker.network.listeners import BrokerService, ControllerService, NodeListeners
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from broker.network.transport import MakeTransport, NodeTransport
from penstock.clock import SystemClock
from penstock.errors import (
    ConfigError,
    InvalidPartitionsError,
    InvalidRequestError,
    NetworkError,
    NotControllerError,
    PenstockError,
    RequestTimedOutError,
    UnknownServerError,
)
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
)
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    ReplicaAssignment,
    TopicResult,
)
from penstock.testing.layout import new_layout
from penstock.types import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, Endpoint, LeaderHint, TopicPartition
from raft.messages import VoteRequest, VoteResponse
from tests.support.machine import NOW_NS, THREADS
from tests.support.memory_cluster import MemoryProcess

NODE, GONE, STRANGER = 0, 1, 2
TIMEOUT_MS = 5_000
VOTE = VoteRequest("cluster", 3, GONE, NODE, 2, 5, pre_vote=True)
ENDS = ListOffsetsRequest((ListOffsetsPartition(TopicPartition("t", 0), "A" * 22, LATEST_TIMESTAMP),), replica_id=3)
VOTED = VoteResponse(-1, 3, vote_granted=True)
CLOCK = SystemClock()


class Session:
    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def close(self) -> None:
        self.closed.set()


class Stage:
    """A node's two listeners, and another's way in to them. `handle` answers what the controller is asked."""

    def __init__(self, memory: MemoryProcess | None, directory: Path) -> None:
        """`memory`: the simulated process in which it is; None in a real one."""
        layout = new_layout(directory, 1, None)
        self.config = parse_config(layout.node_config(0))
        self.listeners: NodeListeners = GrpcListeners(CLOCK, THREADS) if memory is None else memory.listeners("node")
        make: MakeTransport = Peers if memory is None else memory.transport("node")
        nowhere = Endpoint("127.0.0.1", layout.ports[0].metrics)
        voters = {NODE: self.config.listener("CONTROLLER"), GONE: nowhere}
        brokers = {NODE: self.config.listener("INTERNAL"), GONE: nowhere}
        self.transport: NodeTransport = make(voters.get, brokers.get, 1 << 20)
        self.channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        self.sessions: list[Session] = []
        self.asked: list[Any] = []
        self.served: Any = FetchResponse([])
        self.answers: Callable[[Any], Awaitable[Any]] = self._granted

    async def _granted(self, request: Any) -> Any:
        return VOTED

    async def _handle(self, request: Any) -> Any:
        self.asked.append(request)
        return await self.answers(request)

    def _new_session(self, host: str, *, is_stream: bool = True) -> Any:
        self.sessions.append(Session())
        return self.sessions[-1]

    def broker(self) -> Any:
        service = BrokerService(
            channel=self.channel,
            new_session=self._new_session,
            prepare=lambda body: None,
            client_requests=RequestMemory(1 << 20),
            node_requests=RequestMemory(1 << 20),
            client_connections_max=100,
            node_connections_max=100,
            shared=shared_by_clients(self.config, 100),
        )
        return self.listeners.broker(self.config, service)

    def controller(self) -> Any:
        service = ControllerService(quorum=self._handle, controller=self._handle, connections_max=100)
        return self.listeners.controller(self.config, service)

    async def serve(self) -> None:
        """Answers each request with `served`, a fetch with its own correlation id, for as long as it is not
        cancelled."""
        while True:
            request: Any = await self.channel.receive()
            self.asked.append(request.body)
            request.complete(self.served)
            request.handled()


Play = Callable[[Callable[[Stage], Awaitable[None]]], None]


@pytest.fixture(params=["grpc", "simulated"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Play]:
    """Runs a scenario with a controller's listener that listens."""

    def run(scenario: Callable[[Stage], Awaitable[None]]) -> None:
        memory = MemoryProcess(0) if request.param == "simulated" else None

        async def main() -> None:
            stage = Stage(memory, tmp_path)
            controller = stage.controller()
            await controller.start()
            await controller.serving(True)
            server = asyncio.create_task(stage.serve())
            try:
                async with asyncio.timeout(60):
                    await scenario(stage)
            finally:
                server.cancel()
                await stage.transport.close()
                await controller.stop()

        asyncio.run(main()) if memory is None else memory.run(main())

    yield run


async def error_of(answer: Awaitable[Any]) -> BaseException:
    """The error of the call; fails if it was answered."""
    try:
        found = await answer
    except PenstockError as error:
        return error
    raise AssertionError(f"it was answered: {found}")


def fetch() -> FetchRequest:
    return FetchRequest(5, 101, 10, 1, 1 << 20, [], [])


def test_a_quorum_call_arrives_as_it_was_sent_and_is_answered_as_it_was_handled(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.transport.send(NODE, VOTE, TIMEOUT_MS) == VOTED
        assert stage.asked == [VOTE]

    play(scenario)


def test_a_controller_call_arrives_as_it_was_sent_and_is_answered_as_it_was_handled(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        async def answers(request: Any) -> Any:
            return DeleteTopicsResponse((), 7)

        stage.answers = answers
        asked = DeleteTopicsRequest(("A" * 22,))
        assert await stage.transport.call_controller(NODE, asked, TIMEOUT_MS) == DeleteTopicsResponse((), 7)
        assert stage.asked == [asked]

        async def describes(request: Any) -> Any:
            return QuorumInfo(NODE, 3, 9, (), ())

        stage.answers = describes
        view = await stage.transport.call_controller(NODE, DescribeQuorumRequest(), TIMEOUT_MS)
        assert view == QuorumInfo(NODE, 3, 9, (), ()) and stage.asked == [asked, DescribeQuorumRequest()]

    play(scenario)


def test_brokers_ask_each_other_for_the_ends_of_logs_and_for_nothing_else(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        await broker.start()
        broker.open()

        stage.served = ListOffsetsResponse((ListOffsetsResult(ENDS.partitions[0].partition, offset=7),))
        serving = asyncio.ensure_future(stage.serve())
        answer = await stage.transport.call_broker(NODE, ENDS, TIMEOUT_MS)
        assert [result.offset for result in answer.partitions] == [7] and stage.asked == [ENDS]
        serving.cancel()
        stranger = replace(ENDS, replica_id=CONSUMER_REPLICA_ID)
        assert isinstance(await error_of(stage.transport.call_broker(NODE, stranger, TIMEOUT_MS)), InvalidRequestError)
        for broker_id in (GONE, STRANGER):
            assert isinstance(await error_of(stage.transport.call_broker(broker_id, ENDS, TIMEOUT_MS)), NetworkError)
        other = stage.transport.call_broker(NODE, DeleteTopicsRequest(()), TIMEOUT_MS)
        assert isinstance(await error_of(other), InvalidRequestError)
        await broker.stop()

    play(scenario)


def test_new_partitions_arrive_as_they_were_asked_for_and_so_does_what_became_of_them(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        response = CreatePartitionsResponse((TopicResult("t", "A" * 22, InvalidPartitionsError("so many"), 3, 2),), 7)

        async def answers(request: Any) -> Any:
            return response

        stage.answers = answers
        by_hand = NewPartitions("t", 3, (ReplicaAssignment(2, (5, 4)),), "A" * 22)
        asked = CreatePartitionsRequest((by_hand, NewPartitions("u", -1)), validate_only=True)
        answer = await stage.transport.call_controller(NODE, asked, TIMEOUT_MS)
        assert stage.asked == [asked] and repr(answer) == repr(response)

    play(scenario)


def test_a_typed_error_arrives_as_itself_with_its_hint(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        async def refuses(request: Any) -> Any:
            raise NotControllerError("node 0 does not lead the quorum", leader=LeaderHint(2, 9))

        stage.answers = refuses
        error = await error_of(stage.transport.call_controller(NODE, DeleteTopicsRequest(()), TIMEOUT_MS))
        assert isinstance(error, NotControllerError) and error.message == "node 0 does not lead the quorum"
        assert error.leader == LeaderHint(2, 9)

    play(scenario)


def test_a_bug_in_the_handler_is_an_unknown_server_error(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        async def breaks(request: Any) -> Any:
            raise KeyError("a bug")

        stage.answers = breaks
        error = await error_of(stage.transport.send(NODE, VOTE, TIMEOUT_MS))
        assert isinstance(error, UnknownServerError) and "KeyError" in str(error)

    play(scenario)


def test_no_answer_in_time_is_said_so(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        async def hangs(request: Any) -> Any:
            await asyncio.get_running_loop().create_future()

        stage.answers = hangs
        assert isinstance(await error_of(stage.transport.send(NODE, VOTE, 50)), RequestTimedOutError)

    play(scenario)


def test_where_nobody_listens_or_nobody_is_known_there_is_no_network(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        for node_id in (GONE, STRANGER):
            assert isinstance(await error_of(stage.transport.send(node_id, VOTE, TIMEOUT_MS)), NetworkError)
            call = stage.transport.call_controller(node_id, DeleteTopicsRequest(()), TIMEOUT_MS)
            assert isinstance(await error_of(call), NetworkError)
        with pytest.raises(NetworkError):
            stage.transport.open_fetch_stream(STRANGER)
        stream = stage.transport.open_fetch_stream(GONE)
        stream.send(1, fetch())
        assert isinstance(await error_of(stream.receive()), NetworkError)
        stream.cancel()

    play(scenario)


def test_the_fetches_of_a_stream_are_answered_in_order_and_it_has_one_session(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        listeners = stage.broker()
        await listeners.start()
        listeners.open()
        stream = stage.transport.open_fetch_stream(NODE)
        for number in range(5):
            stream.send(number, fetch())
        assert [(await stream.receive())[0] for _ in range(5)] == list(range(5))
        assert stage.asked == [fetch()] * 5
        assert len(stage.sessions) == 1 and not stage.sessions[0].closed.is_set()
        stream.cancel()
        assert isinstance(await error_of(stream.receive()), NetworkError)
        await stage.sessions[0].closed.wait()
        await listeners.stop()

    play(scenario)


def test_a_node_that_has_not_caught_up_takes_no_fetches(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        listeners = stage.broker()
        await listeners.start()
        stream = stage.transport.open_fetch_stream(NODE)
        stream.send(1, fetch())
        error = await error_of(stream.receive())
        assert isinstance(error, NetworkError) and "has not caught up with the metadata" in str(error)
        for session in stage.sessions:
            await session.closed.wait()  # after the stream was told
        stream.cancel()
        await listeners.stop()

    play(scenario)


def test_a_listener_that_stops_ends_its_streams(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        listeners = stage.broker()
        await listeners.start()
        listeners.open()
        stream = stage.transport.open_fetch_stream(NODE)
        stream.send(1, fetch())
        assert (await stream.receive())[0] == 1
        await listeners.stop()
        assert isinstance(await error_of(stream.receive()), NetworkError)
        stream.cancel()

    play(scenario)


def test_one_address_has_one_listener(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        second = stage.controller()
        with pytest.raises(ConfigError, match="cannot listen on"):
            await second.start()
        await second.stop()

    play(scenario)
