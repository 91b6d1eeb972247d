"""Promises of the way to the controller: whatever goes wrong there is a typed error here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller_channel import ControllerChannel
from penstock.clock import SystemClock
from penstock.errors import RequestTimedOutError
from tests.support.virtual_time import run_virtual, virtual_clock

HERE = 1


def test_a_controller_in_this_process_that_does_not_answer_in_time_is_a_typed_error() -> None:
    async def never(_request: Any) -> Any:
        await asyncio.Event().wait()

    async def elsewhere(_node_id: int, _request: Any, _timeout_ms: int) -> Any:
        raise AssertionError("the leader is here")

    async def scenario() -> None:
        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=HERE), SystemClock(), elsewhere, never)
        with pytest.raises(RequestTimedOutError, match="no answer"):
            await channel.call("a heartbeat", timeout_ms=10)

    asyncio.run(scenario())


def test_a_call_to_a_hung_controller_is_made_anew_as_soon_as_another_node_leads() -> None:
    async def scenario() -> None:
        quorum = SimpleNamespace(leader_id=2)
        asked: list[int] = []

        async def remote(node_id: int, _request: Any, _timeout_ms: int) -> Any:
            asked.append(node_id)
            if node_id == 2:
                await asyncio.Event().wait()
            return "done"

        clock = virtual_clock()
        channel = ControllerChannel(HERE, quorum, clock, remote, None)
        began_ms = clock.now_ms()
        call = asyncio.create_task(channel.call("a heartbeat"))
        await asyncio.sleep(1)
        channel.leader_changed(-1)  # no other is known yet, and this one may only be slow
        await asyncio.sleep(1)
        assert asked == [2]
        quorum.leader_id = 3
        channel.leader_changed(3)
        assert await call == "done"
        assert asked == [2, 3]
        assert clock.now_ms() - began_ms < 2_200

    run_virtual(scenario())
