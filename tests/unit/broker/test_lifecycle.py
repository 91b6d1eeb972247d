"""Promises of a broker's standing with the controller."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from broker.controller_channel import ControllerChannel
from broker.lifecycle import BrokerLifecycle
from broker.metadata_loader import MetadataLoader
from metadata.requests import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from penstock.errors import ApiError, RequestTimedOutError


class FakeController:
    """Answers registrations at once, and heartbeats by the wish to be fenced; the first with the error, if any."""

    def __init__(self, heartbeats: int, error: ApiError | None = None) -> None:
        self.wishes: list[bool] = []
        self.enough = asyncio.Event()
        self._heartbeats = heartbeats
        self._error = error

    async def call(self, request: Any, _timeout_ms: int = 0) -> Any:
        await asyncio.sleep(0)
        if isinstance(request, RegisterBrokerRequest):
            return RegisterBrokerResponse(7)
        assert isinstance(request, BrokerHeartbeatRequest)
        self.wishes.append(request.want_fence)
        if len(self.wishes) == self._heartbeats:
            self.enough.set()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=request.want_fence, should_shut_down=False)


class CaughtUp:
    image = SimpleNamespace(offset=7)

    async def wait_for_offset(self, offset: int) -> None:
        """It is there."""


def wishes(heartbeats: int, error: ApiError | None = None) -> list[bool]:
    """Of the first heartbeats of a broker that has lost a replica before them: did it ask to be fenced?"""

    async def main() -> list[bool]:
        controller = FakeController(heartbeats, error)
        lifecycle = BrokerLifecycle(
            RegisterBrokerRequest("c", 1, "incarnation", "h", 9, "", -1, ()),
            cast(ControllerChannel, controller),
            cast(MetadataLoader, CaughtUp()),
            1,
            lambda epoch: None,
            lambda: None,
        )
        lifecycle.leave_isrs()
        lifecycle.start()
        await controller.enough.wait()
        await lifecycle.stop()
        return controller.wishes[:heartbeats]

    return asyncio.run(main())


def test_a_broker_that_lost_a_replica_leaves_its_isrs_once_and_comes_back() -> None:
    assert wishes(3) == [True, False, False]


def test_a_heartbeat_without_an_answer_does_not_forget_that_a_replica_is_lost() -> None:
    assert wishes(3, RequestTimedOutError("x")) == [True, True, False]
