"""Promises of the request path: bounded, in order per connection, and one failure stays one failure."""

from __future__ import annotations

import asyncio

import pytest

from broker.connections.stream_quotas import StreamQuotas
from broker.load.busy_time import BusyTimes
from broker.network.dispatcher import TURN_MS, Dispatcher
from broker.network.failed_requests import FailedRequests
from broker.network.processor import Processor
from broker.network.request_channel import Request, RequestChannel
from penstock.clock import ManualClock
from penstock.errors import InvalidRequestError, InvariantViolation, ResourceExhaustedError, UnknownServerError
from penstock.types import Endpoint
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, submit


def test_answers_leave_in_the_order_of_the_requests() -> None:
    async def main() -> list[object]:
        channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        processor = Processor(channel, CALLER, 8)
        for body in ("first", "second"):
            await submit(processor, "Api", body)
        first, second = await channel.receive(), await channel.receive()
        second.complete(2)
        assert channel.statistics().response_queue_size == 1
        first.complete(1)
        processor.input_ended()
        answers = []
        while (request := await processor.next_response()) is not None:
            answers.append(request.response)
        processor.close()
        assert channel.statistics() == type(channel.statistics())(0, 0, 0, {})
        return answers

    assert asyncio.run(main()) == [1, 2]


def test_a_connection_may_not_have_more_open_requests_than_its_limit() -> None:
    async def main() -> None:
        channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        processor = Processor(channel, CALLER, 2)
        await submit(processor, "Api", 1)
        await submit(processor, "Api", 2)
        third = asyncio.create_task(submit(processor, "Api", 3))
        await asyncio.sleep(0)
        assert not third.done()
        (await channel.receive()).complete(None)
        await processor.next_response()
        await third

    asyncio.run(main())


def test_a_full_channel_makes_the_connection_wait() -> None:
    async def main() -> None:
        channel = RequestChannel(1, BusyTimes(NOW_NS), NOW_NS)
        processor = Processor(channel, CALLER, 8)
        await submit(processor, "Api", 1)
        second = asyncio.create_task(submit(processor, "Api", 2))
        await asyncio.sleep(0)
        assert not second.done() and channel.statistics().request_queue_size == 1
        await channel.receive()
        await second

    asyncio.run(main())


def test_a_failing_api_answers_its_own_request_and_the_handler_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[Request]:
        channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        processor = Processor(channel, CALLER, 8)

        def handle(request: Request) -> None:
            if request.body == "typed":
                raise InvalidRequestError("no")
            if request.body == "bug":
                raise ZeroDivisionError("oops")
            request.complete("fine")

        pool = Dispatcher(channel, handle, FailedRequests(pytest.fail).fail)
        pool.start()
        for body in ("typed", "bug", "good"):
            await submit(processor, "Api", body)
        answers = [await processor.next_response() for _ in range(3)]
        await pool.stop()
        return [answer for answer in answers if answer is not None]

    typed, bug, good = asyncio.run(main())
    assert isinstance(typed.error, InvalidRequestError)
    assert isinstance(bug.error, UnknownServerError) and "ZeroDivisionError" in str(bug.error)
    assert good.response == "fine"


class _Sink:
    def response_ready(self, request: Request) -> None: ...

    def part_ready(self, request: Request) -> None: ...


def test_a_full_queue_of_slow_requests_leaves_the_loop_its_turns() -> None:
    clock = ManualClock(1)
    seen: list[str] = []

    def handle(request: Request) -> None:
        clock.advance(TURN_MS + 1)
        seen.append("handled")

    async def others() -> None:
        while len(seen) < 8:
            seen.append("others")
            await asyncio.sleep(0)

    async def scenario() -> None:
        channel = RequestChannel(10, BusyTimes(clock.now_ns), clock.now_ns)
        for _ in range(4):
            await channel.send(Request("Any", None, _Sink(), CALLER, clock.now_ns))
        dispatcher = Dispatcher(channel, handle, FailedRequests(pytest.fail).fail)
        dispatcher.start()
        await others()
        await dispatcher.stop()

    asyncio.run(scenario())
    assert seen == ["others", "handled"] * 4


def test_an_answer_after_the_connection_closed_goes_nowhere() -> None:
    async def main() -> None:
        channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        processor = Processor(channel, CALLER, 8)
        await submit(processor, "Api", 1)
        request = await channel.receive()
        processor.close()
        request.complete("late")
        assert channel.statistics().response_queue_size == 0

    asyncio.run(main())


def test_a_handled_request_is_counted_by_its_api_until_it_is_answered_or_its_connection_is_gone() -> None:
    async def main() -> None:
        channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        processor = Processor(channel, CALLER, 8)
        for api in ("Produce", "Produce", "FetchConsumer", "Metadata"):
            await submit(processor, api, None)
        produces, (fetch, metadata) = (
            [await channel.receive() for _ in range(2)],
            [await channel.receive() for _ in range(2)],
        )
        metadata.complete("at once")
        for request in (*produces, fetch, metadata):
            channel.request_handled(request)
        assert channel.statistics().waiting == {"Produce": 2, "FetchConsumer": 1}
        produces[0].complete("acked")
        produces[0].complete("and timed out")
        assert channel.statistics().waiting == {"Produce": 1, "FetchConsumer": 1}
        processor.close()
        produces[1].complete("too late")
        channel.request_handled(fetch)
        assert channel.statistics().waiting == {"Produce": 0, "FetchConsumer": 0}

    asyncio.run(main())


def test_connections_are_counted_in_all_and_by_address() -> None:
    quotas = StreamQuotas(3, 2)
    quotas.connected(Endpoint("10.0.0.1", 1))
    quotas.connected(Endpoint("10.0.0.1", 2))
    with pytest.raises(ResourceExhaustedError, match=r"max.connections.per.ip=2"):
        quotas.connected(Endpoint("10.0.0.1", 3))
    quotas.connected(Endpoint("10.0.0.2", 1))
    with pytest.raises(ResourceExhaustedError, match=r"max.connections=3"):
        quotas.connected(Endpoint("10.0.0.3", 1))
    quotas.disconnected(Endpoint("10.0.0.1", 1))
    quotas.connected(Endpoint("10.0.0.3", 1))


def test_an_invariant_that_does_not_hold_is_answered_and_ends_the_node() -> None:
    async def main() -> tuple[Request | None, list[BaseException]]:
        channel, fatal = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS), []
        processor = Processor(channel, CALLER, 8)

        def handle(request: Request) -> None:
            raise InvariantViolation("two leaders")

        pool = Dispatcher(channel, handle, FailedRequests(fatal.append).fail)
        pool.start()
        await submit(processor, "Api", 1)
        answer = await processor.next_response()
        await pool.stop()
        return answer, fatal

    answer, fatal = asyncio.run(main())
    assert answer is not None and isinstance(answer.error, UnknownServerError)
    assert [str(error) for error in fatal] == ["two leaders"]
