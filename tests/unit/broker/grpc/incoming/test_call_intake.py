"""Calls begin however many of their API came before, none is lost, and a server that stops leaves none behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc._cython import cygrpc

from broker.grpc.incoming.call_intake import (
    AHEAD_MAX,
    AHEAD_MIN,
    KNOWN,
    BeginsCallsAtOnce,
    Handlers,
    is_library_known,
    make_server,
)

OTHER_LIBRARY = {"_handle_rpc": "(something_else)"}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)


class Served:
    """A server of one method that answers when it may, and a channel to it."""

    def __init__(self, known: Mapping[str, str] = KNOWN) -> None:
        self.begun: list[bytes] = []
        self.may_end = asyncio.Event()
        self.server = make_server([], known)
        handler = grpc.unary_unary_rpc_method_handler(self._answer, None, None)
        self.server.add_registered_method_handlers("test.Service", {"Call": handler})
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    async def _answer(self, message: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        self.begun.append(message)
        await self.may_end.wait()
        return message

    async def __aenter__(self) -> Served:
        await self.server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}")
        return self

    def call(self, method: str, message: bytes) -> Any:
        return self.channel.unary_unary(f"/test.Service/{method}")(message, timeout=30)

    async def begin(self, count: int) -> list[Any]:
        """So many calls, all of which have begun."""
        calls, before = [self.call("Call", b"%d" % number) for number in range(count)], len(self.begun)
        await until(lambda: len(self.begun) == before + count)
        return calls

    async def intake(self, text: str) -> None:
        """Returns once the calls of the method stand so."""
        (intake,) = self.server._server.intakes
        await until(lambda: repr(intake) == f"MethodIntake(/test.Service/Call, {text})")

    async def __aexit__(self, *failure: object) -> None:
        self.may_end.set()
        await self.channel.close()
        await self.server.stop(None)


@pytest.mark.parametrize("known", [KNOWN, OTHER_LIBRARY], ids=["known", "other library"])
def test_all_calls_are_answered_and_as_many_are_open_as_clients_make(known: Mapping[str, str]) -> None:
    async def main() -> None:
        async with Served(known) as served:
            calls = await served.begin(200)
            served.may_end.set()
            assert await asyncio.gather(*calls) == [b"%d" % number for number in range(200)]
            assert sorted(served.begun) == sorted(b"%d" % number for number in range(200))

    asyncio.run(main())


def test_as_many_calls_are_asked_for_as_are_open_within_bounds() -> None:
    async def main() -> None:
        async with Served() as served:
            await served.intake("0 open, 1 asked for")
            calls = await served.begin(1)
            await served.intake(f"1 open, {AHEAD_MIN} asked for")
            calls += await served.begin(AHEAD_MIN + 5)
            await served.intake(f"{len(calls)} open, {len(calls)} asked for")
            calls += await served.begin(AHEAD_MAX + 50)
            await served.intake(f"{len(calls)} open, {AHEAD_MAX} asked for")

    asyncio.run(main())


def test_fewer_are_asked_for_when_few_are_open_again() -> None:
    async def main() -> None:
        async with Served() as served:
            calls = await served.begin(20)
            await served.intake("20 open, 20 asked for")
            served.may_end.set()
            await asyncio.gather(*calls)
            for _ in range(20):
                await served.call("Call", b"")
            await served.intake(f"0 open, {AHEAD_MIN} asked for")

    asyncio.run(main())


def test_what_nobody_serves_is_unimplemented() -> None:
    async def main() -> None:
        async with Served() as served:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.call("Other", b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(main())


def test_a_path_without_a_handler_has_none() -> None:
    details: Any = SimpleNamespace(method="/test.Service/Other")
    assert Handlers().resolve_handler(details) is None


def test_the_librarys_servers_stay_what_they_were() -> None:
    async def main() -> None:
        before = cygrpc.AioServer
        assert isinstance(make_server([])._server, BeginsCallsAtOnce)
        assert cygrpc.AioServer is before
        assert type(grpc.aio.server()._server) is before is type(make_server([], OTHER_LIBRARY)._server)

    asyncio.run(main())


def test_the_library_is_as_it_is_known() -> None:
    assert is_library_known()
    assert inspect.iscoroutinefunction(cygrpc._handle_rpc) and inspect.iscoroutinefunction(cygrpc._schedule_rpc_coro)


@pytest.mark.parametrize(
    "known", [OTHER_LIBRARY, {"_gone": "()"}, {"AioServer._gone.twice": "()"}, {"AioServer": "()"}]
)
def test_another_library_is_told_apart(known: Mapping[str, str]) -> None:
    assert not is_library_known(known)


def test_a_server_stops_while_calls_are_open_and_others_come(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Served() as served:
            calls = await served.begin(50)
            calls += [served.call("Call", b"late") for _ in range(50)]
            await asyncio.wait_for(served.server.stop(None), 30)
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(answer, grpc.aio.AioRpcError) for answer in answers)
            await served.intake("0 open, 0 asked for")

    asyncio.run(main())
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_call_whose_client_leaves_is_open_no_longer() -> None:
    async def main() -> None:
        async with Served() as served:
            (call,) = await served.begin(1)
            await served.intake(f"1 open, {AHEAD_MIN} asked for")
            call.cancel()
            await served.intake(f"0 open, {AHEAD_MIN} asked for")

    asyncio.run(main())
