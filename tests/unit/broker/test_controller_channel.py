"""Promises of the way to the controller: whatever goes wrong there is a typed error here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller_channel import ControllerChannel
from penstock.clock import SystemClock
from penstock.errors import RequestTimedOutError

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
