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
    """Answers registrations with epochs from 7 on, and every heartbeat with yes; the first call that is due with the
    error, if any."""

    def __init__(self, enough: int, error: ApiError | None = None) -> None:
        self.calls: list[str] = []
        self.asked: list[RegisterBrokerRequest] = []
        self.registrations: list[RegisterBrokerRequest] = []
        self.enough = asyncio.Event()
        self._enough = enough
        self._error = error

    async def call(self, request: Any, _timeout_ms: int = 0) -> Any:
        await asyncio.sleep(0)
        self.calls.append(type(request).__name__.removesuffix("Request"))
        if len(self.calls) == self._enough:
            self.enough.set()
        if isinstance(request, RegisterBrokerRequest):
            self.asked.append(request)
        if self.registrations and self._error is not None:
            error, self._error = self._error, None
            raise error
        if isinstance(request, RegisterBrokerRequest):
            self.registrations.append(request)
            return RegisterBrokerResponse(6 + len(self.registrations))
        assert isinstance(request, BrokerHeartbeatRequest)
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=False)


class CaughtUp:
    image = SimpleNamespace(offset=7)

    async def wait_for_offset(self, offset: int) -> None:
        """It is there."""


def life(calls: int, *, lost_after: int, error: ApiError | None = None) -> FakeController:
    """So many calls of a broker, which has found a replica to be lost after some of them."""

    async def main() -> FakeController:
        controller = FakeController(calls, error)
        epochs: list[int] = []

        def registered(epoch: int) -> None:
            epochs.append(epoch)
            if len(epochs) == 1 and lost_after == 1:
                lifecycle.leave_isrs()

        lifecycle = BrokerLifecycle(
            RegisterBrokerRequest("c", 1, "incarnation", "h", 9, "", 5, ()),
            cast(ControllerChannel, controller),
            cast(MetadataLoader, CaughtUp()),
            1,
            registered,
            lambda: None,
        )
        if lost_after == 0:
            lifecycle.leave_isrs()
        lifecycle.start()
        await controller.enough.wait()
        await lifecycle.stop()
        assert epochs == [7 + at for at in range(len(epochs))]
        controller.calls = controller.calls[:calls]
        return controller

    return asyncio.run(main())


def test_a_broker_that_lost_a_replica_registers_once_as_its_own_successor() -> None:
    controller = life(4, lost_after=1)
    assert controller.calls == ["RegisterBroker", "RegisterBroker", "BrokerHeartbeat", "BrokerHeartbeat"]
    first, second = controller.registrations
    assert first.incarnation_id == "incarnation" != second.incarnation_id
    assert (first.previous_broker_epoch, second.previous_broker_epoch) == (5, 7)


def test_a_replica_that_was_lost_before_the_registration_needs_no_other() -> None:
    assert life(4, lost_after=0).calls == ["RegisterBroker", "BrokerHeartbeat", "BrokerHeartbeat", "BrokerHeartbeat"]


def test_a_registration_without_an_answer_is_asked_for_again_as_the_same() -> None:
    controller = life(4, lost_after=1, error=RequestTimedOutError("x"))
    assert controller.calls == ["RegisterBroker", "RegisterBroker", "RegisterBroker", "BrokerHeartbeat"]
    unanswered, answered = controller.asked[1:]
    assert unanswered.incarnation_id == answered.incarnation_id
