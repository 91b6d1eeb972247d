"""Promises of a stream at the listener: its bytes count and are given back, its stalled writes are known, limits end
it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from broker.connections.stream_quotas import StreamQuotas
from broker.connections.turns import PeerTurns
from broker.grpc.access import ListenerAccess
from broker.grpc.client_calls import client_calls
from broker.grpc.client_streams import PRODUCES_PIPELINED_MAX, StreamHandlers, StreamLimits
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.incoming.turned_decoder import DecodedMessage
from broker.load.busy_time import BusyTimes
from broker.network.answer_turns import SMALL_ELEMENTS
from broker.network.connection_loop import Quotas
from broker.network.decoding_turns import LONG
from broker.network.memory_budget import Lease
from broker.network.request_channel import Caller, Request, RequestChannel
from broker.network.request_memory import ANSWER_COPIES, RequestMemory
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages.admin_apis import DESCRIBE_METADATA
from penstock.messages.api import Api
from penstock.messages.client_apis import CREATE_TOPICS, LIST_OFFSETS, PRODUCE
from penstock.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from penstock.messages.produce import ProduceResponse
from penstock.messages.quorum import DescribeMetadataRequest, DescribeMetadataResponse
from penstock.messages.topics import CreateTopicsRequest
from penstock.pb import broker_pb2 as pb
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer
from penstock.wire.throttle_trailer import Throttled, throttle_in
from tests.support.machine import NOW_NS
from tests.support.virtual_time import run_virtual, virtual_clock

PEER = Endpoint("10.0.0.1", 4711)


class Stream:
    """The far end of one produce stream: its messages, and how fast it reads the answers."""

    def __init__(self, *messages: pb.ProduceRequest) -> None:
        self.messages = [message.SerializeToString() for message in messages]
        self.may_read = asyncio.Event()
        self.answers: list[pb.ProduceResponse] = []
        self.status: tuple[grpc.StatusCode, str] | None = None
        self.trailer: tuple[tuple[str, str], ...] = ()
        self.host = PEER.host

    async def read(self) -> Any:
        return self.messages.pop(0) if self.messages else grpc.aio.EOF

    async def write(self, raw: bytes) -> None:
        await self.may_read.wait()
        self.answers.append(pb.ProduceResponse.FromString(raw))

    def set_trailing_metadata(self, trailer: tuple[tuple[str, str], ...]) -> None:
        self.trailer = trailer

    async def abort(self, code: grpc.StatusCode, details: str, trailer: tuple[tuple[str, str], ...]) -> None:
        self.status, self.trailer = (code, details), trailer
        raise grpc.aio.AbortError

    def peer(self) -> str:
        return f"ipv4:{self.host}:4711"


class Bench:
    """A listener, with a handler that answers everything at once."""

    def __init__(self, queued_max: int = 10, turns: PeerTurns | None = None, quotas: Quotas | None = None) -> None:
        self.channel = RequestChannel(queued_max, BusyTimes(NOW_NS), NOW_NS)
        self.memory = RequestMemory(1 << 30)
        limits = StreamLimits(
            decoders=RequestDecoders(1 << 20),
            connections=StreamQuotas(9, 9),
            requests=self.memory,
            node_requests=self.memory,
        )
        access = ListenerAccess("BROKER", "INTERNAL", turns=turns)
        self.handlers = StreamHandlers(self.channel, cast(Any, None), limits, access)
        self.calls = client_calls(self.channel, access, quotas, self.memory)
        access.open()

    async def handle_one(self) -> Request:
        request = await self.channel.receive()
        request.complete(ProduceResponse())
        request.handled()
        return request

    def serve(self, stream: Stream) -> asyncio.Future[None]:
        return asyncio.ensure_future(self.handlers.streams[PRODUCE](None, cast(Any, stream)))


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        await scenario(bench)
        assert bench.memory.statistics().used_bytes == 0, "bytes of a request were not given back"
        assert not bench.handlers.writing_since_ms() and not bench.handlers.peers_with_streams()

    asyncio.run(main())


def test_an_answer_that_is_not_read_is_known_with_its_connection() -> None:
    async def scenario(bench: Bench) -> None:
        stream = Stream(pb.ProduceRequest(correlation_id=1))
        served = bench.serve(stream)
        await bench.handle_one()
        await asyncio.sleep(0)
        assert (
            set(bench.handlers.writing_since_ms())
            == {Endpoint("10.0.0.1", 4711)}
            == bench.handlers.peers_with_streams()
        )
        stream.may_read.set()
        await served
        assert [answer.correlation_id for answer in stream.answers] == [1]

    run(scenario)


def test_a_request_over_a_limit_ends_its_stream_after_the_answers_to_those_before() -> None:
    async def scenario(bench: Bench) -> None:
        over = pb.ProduceRequest(partitions=[pb.PartitionRecords()] * 2_001)
        stream = Stream(pb.ProduceRequest(correlation_id=1), over)
        stream.may_read.set()
        served = bench.serve(stream)
        await bench.handle_one()
        await asyncio.gather(served, return_exceptions=True)
        assert [answer.correlation_id for answer in stream.answers] == [1]
        assert stream.status is not None and stream.status[0] is grpc.StatusCode.INVALID_ARGUMENT
        assert "partitions has 2001 elements or more" in stream.status[1]

    run(scenario)


def test_a_large_message_of_a_stream_waits_for_its_turn_and_those_behind_it_keep_their_order() -> None:
    async def scenario(bench: Bench) -> None:
        work = bench.channel.long_work
        await work.turn("another")
        parts = [pb.PartitionRecords(topic="t" * 50)] * LONG
        small, others = (
            Stream(pb.ProduceRequest(correlation_id=1)),
            Stream(pb.ProduceRequest(correlation_id=2, partitions=parts), pb.ProduceRequest(correlation_id=3)),
        )
        served = [bench.serve(stream) for stream in (others, small)]
        for stream in (small, others):
            stream.may_read.set()
        await bench.handle_one()
        await asyncio.wait((served[1],), timeout=60)
        assert [answer.correlation_id for answer in small.answers] == [1], "a small one waits for nobody"
        assert not others.answers and bench.memory.statistics().used_bytes > 50 * LONG, "its bytes count meanwhile"
        work.done("another")
        assert [(await bench.handle_one()).is_large for _ in range(2)] == [True, False]
        await served[0]
        assert [answer.correlation_id for answer in others.answers] == [2, 3]

    run(scenario)


@pytest.mark.parametrize("topic", ["t", "t" * 50])
def test_of_a_party_that_reads_nothing_no_produce_with_a_large_answer_is_decoded_and_all_others_go_on(
    topic: str,
) -> None:
    """Its messages wait as bytes, which count, also where they are too small to be long work. Messages with small
    answers go on, and so does another party's."""

    async def scenario(bench: Bench) -> None:
        parts = [pb.PartitionRecords(topic=topic)] * (SMALL_ELEMENTS + 1)
        unread = bench.memory.answer(PEER.host, bench.memory.answers.free * 3 // 4 // ANSWER_COPIES)
        large = [Stream(*(pb.ProduceRequest(correlation_id=n, partitions=parts) for n in (1, 2))) for _ in range(5)]
        small, other = Stream(pb.ProduceRequest(correlation_id=3)), Stream(pb.ProduceRequest(partitions=parts))
        other.host = "10.0.0.2"
        served = [bench.serve(stream) for stream in (*large, small, other)]
        for stream in (*large, small, other):
            stream.may_read.set()
        for _ in range(2):
            await bench.handle_one()
        await asyncio.wait(served[-2:], timeout=60)
        assert small.answers and other.answers
        assert not bench.channel.statistics().request_queue_size and not any(stream.answers for stream in large)
        assert bench.memory.statistics().used_bytes > 5 * len(parts) * len(topic), "the first of each stream"
        unread.release()
        for _ in range(10):
            await bench.handle_one()
        await asyncio.gather(*served)
        assert [[answer.correlation_id for answer in stream.answers] for stream in large] == [[1, 2]] * 5

    run(scenario)


def test_a_stream_that_breaks_while_its_request_waits_gives_the_bytes_back_when_it_was_handled() -> None:
    async def scenario(bench: Bench) -> None:
        served = bench.serve(Stream(*(pb.ProduceRequest(correlation_id=n, client_id="x" * 100) for n in range(30))))
        for _ in range(50):
            await asyncio.sleep(0)
        assert bench.channel.statistics().request_queue_size == 10
        served.cancel()
        await asyncio.gather(served, return_exceptions=True)
        await asyncio.sleep(0)
        assert bench.memory.statistics().used_bytes >= 10 * 100, "what is queued is in memory"
        for _ in range(10):
            await bench.handle_one()

    run(scenario)


def test_a_stream_with_as_many_open_requests_as_it_may_have_is_not_read_and_holds_no_memory_for_the_next() -> None:
    async def main() -> None:
        bench = Bench(queued_max=100)
        stream = Stream(*(pb.ProduceRequest(correlation_id=n) for n in range(30)))
        served = bench.serve(stream)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(stream.messages) == 30 - PRODUCES_PIPELINED_MAX
        served.cancel()
        await asyncio.gather(served, return_exceptions=True)

    asyncio.run(main())


class FirstWaits:
    """Each connection waits a second for its turn (`AddressQuotas`)."""

    has_addresses = True

    def connected(self, host: str, now_ms: int) -> int:
        return 1_000

    def left(self, host: str) -> None:
        """Nothing is counted."""


def test_streams_and_calls_of_a_connection_above_its_addresss_quota_wait_for_its_turn() -> None:
    async def main() -> None:
        turns = PeerTurns(FirstWaits(), virtual_clock().now_ms)
        bench, loop = Bench(turns=turns), asyncio.get_running_loop()
        stream = Stream(pb.ProduceRequest(correlation_id=1))
        stream.may_read.set()
        served = bench.serve(stream)
        asked = DescribeMetadataRequest(7, 2, 3)
        call = asyncio.ensure_future(
            bench.calls[DESCRIBE_METADATA](DecodedMessage(asked, False), cast(Any, Stream()), Caller(PEER))
        )
        began = loop.time()
        await bench.handle_one()
        await bench.handle_one()
        await asyncio.gather(served, call, return_exceptions=True)
        assert 1.0 <= loop.time() - began < 1.1 and [one.correlation_id for one in stream.answers] == [1]

    run_virtual(main())


class UsedUp:
    """Makes a client wait so long after each call, and holds up each call that it owes."""

    def __init__(self, answered_ms: int = 0, changes_ms: int = 0, owed_ms: int = 0) -> None:
        self._answered_ms, self._changes_ms, self._owed_ms = answered_ms, changes_ms, owed_ms
        self.is_active = True

    def came(self, request: Request, size_bytes: int, now_ns: int) -> int:
        raise AssertionError("only a stream's")

    def answered(self, request: Request, worked: Request, size_bytes: int, now_ns: int) -> int:
        request.throttle_ms = self._changes_ms
        return self._answered_ms

    def owed(self, request: Request, now_ns: int) -> int:
        return self._owed_ms


def called(
    quotas: UsedUp, api: Api[Any, Any], asked: Any, error: ApiError | None = None
) -> tuple[float, float, Stream]:
    """After how many seconds a call is handled, and answered; and its far end."""
    took: list[float] = []
    far = Stream()

    async def main() -> None:
        bench, loop = Bench(quotas=quotas), asyncio.get_running_loop()
        began = loop.time()
        call = asyncio.ensure_future(bench.calls[api](DecodedMessage(asked, False), cast(Any, far), Caller(PEER)))
        request = await bench.channel.receive()
        took.append(loop.time() - began)
        request.complete(api.response(()))
        request.error = error
        request.handled()
        await asyncio.gather(call, return_exceptions=True)
        took.append(loop.time() - began)

    run_virtual(main())
    return took[0], took[1], far


def test_who_used_its_quota_up_is_answered_at_once_and_told_how_long_it_waits() -> None:
    *took, far = called(UsedUp(answered_ms=60_000, changes_ms=7), LIST_OFFSETS, ListOffsetsRequest(()))
    assert took == [0, 0] and throttle_in(far.trailer) == Throttled(60_000, 7)


def test_whose_call_failed_is_told_so_too() -> None:
    error = InvalidRequestError("no")
    *_, far = called(UsedUp(answered_ms=60_000), LIST_OFFSETS, ListOffsetsRequest(()), error)
    assert far.status == (grpc.StatusCode.INVALID_ARGUMENT, "no")
    assert throttle_in(far.trailer) == Throttled(60_000) and error_in_trailer(far.trailer, "no") is not None


@pytest.mark.parametrize(
    ("owed_ms", "timeout_ms", "held_s"),
    [
        (300, 10_000, 0.3),
        (60_000, 10_000, 5.0),
        (60_000, 0, 1.0),
        (0, 10_000, 0),
        (60_000, 2, 1.0),
        (60_000, 2**31 - 1, 15.0),
    ],
)
def test_a_call_that_comes_too_early_is_held_before_it_is_handled_for_half_of_its_time(
    owed_ms: int, timeout_ms: int, held_s: float
) -> None:
    handled_s, answered_s, far = called(
        UsedUp(owed_ms=owed_ms), CREATE_TOPICS, CreateTopicsRequest((), timeout_ms=timeout_ms)
    )
    assert handled_s == answered_s == pytest.approx(held_s) and far.trailer == ()


def test_a_description_of_the_metadata_goes_through_the_request_channel() -> None:
    async def scenario(bench: Bench) -> None:
        asked = DescribeMetadataRequest(7, 2, 3)
        call = asyncio.ensure_future(
            bench.calls[DESCRIBE_METADATA](DecodedMessage(asked, False), cast(Any, Stream()), Caller(PEER))
        )
        request = await bench.channel.receive()
        assert (request.api, request.body) == ("DescribeMetadata", DescribeMetadataRequest(7, 2, 3))
        request.complete(DescribeMetadataResponse(1, 7, 4, 2, "ab", 9, b"cde"))
        answer = pb.DescribeMetadataResponse.FromString(await call)
        assert (answer.node_id, answer.offset, answer.epoch, answer.size_bytes, answer.lines) == (1, 7, 4, 9, b"cde")
        assert (answer.records, answer.sha256) == (2, "ab")

    run(scenario)


def test_however_many_calls_of_a_party_are_open_its_answers_are_built_one_after_the_other_above_its_share() -> None:
    async def scenario(bench: Bench) -> None:
        answers = bench.memory.answers
        unread = bench.memory.answer(PEER.host, answers.free // ANSWER_COPIES)
        asked = ListOffsetsRequest(())
        calls = [
            bench.calls[LIST_OFFSETS](DecodedMessage(asked, False), cast(Any, Stream()), Caller(PEER)) for _ in range(3)
        ]
        tasks = [asyncio.ensure_future(count_answer(bench, call)) for call in calls]
        for _ in calls:
            (await bench.channel.receive()).complete(ListOffsetsResponse(()))
        await turns()
        assert not any(task.done() for task in tasks), "all of them were read before anything was unread"
        for task in tasks:
            unread.release()
            await turns()
            built = [task for task in tasks if task.done()]
            assert task in built and len(built) == tasks.index(task) + 1, "all that wait are told, and one is built"
            unread = task.result()
        unread.release()

    async def count_answer(bench: Bench, call: Awaitable[bytes]) -> Lease:
        await call
        return bench.memory.answer(PEER.host, bench.memory.answers.free // ANSWER_COPIES)

    async def turns() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    run(scenario)


@pytest.mark.parametrize("is_large", [False, True])
def test_the_request_of_a_call_is_as_large_as_its_message(is_large: bool) -> None:
    """The dispatcher takes a small one for somebody who asks: long work rests for it."""

    async def scenario(bench: Bench) -> None:
        decoded = DecodedMessage(ListOffsetsRequest(()), is_large)
        call = asyncio.ensure_future(bench.calls[LIST_OFFSETS](decoded, cast(Any, Stream()), Caller(PEER)))
        request = await bench.channel.receive()
        assert request.is_large is is_large
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    run(scenario)


@pytest.mark.parametrize("is_handled", [False, True])
def test_a_call_that_its_client_gave_up_is_marked_so_whether_it_is_queued_or_waits(is_handled: bool) -> None:
    async def scenario(bench: Bench) -> None:
        asked = ListOffsetsRequest(())
        call = asyncio.ensure_future(
            bench.calls[LIST_OFFSETS](DecodedMessage(asked, False), cast(Any, Stream()), Caller(PEER))
        )
        request = await bench.channel.receive()
        if is_handled:
            bench.channel.request_handled(request)
            assert bench.channel.statistics().waiting == {"ListOffsets": 1}
        assert not request.is_abandoned
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert request.is_abandoned and not any(bench.channel.statistics().waiting.values())
        request.complete([])  # by a thread that was at work: told to nobody

    run(scenario)
