"""How long a broker that stops goes on asking the controller to take its leaderships first."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import cast

from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.node.registration.controlled_shutdown import CONTROLLED_SHUTDOWN_MS_MAX
from broker.node.registration.replica_losses import ReplicaLosses
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.lead_lease import LeadLease
from broker.quorum.metadata_loader import MetadataLoader
from penstock.errors import ApiError, RequestTimedOutError, StaleBrokerEpochError
from penstock.messages.nodes.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tests.support.machine import IDS
from tests.support.virtual_time import run_virtual, virtual_clock

HEARTBEAT_MS, SESSION_MS = 500, 3_000
BUSY = RequestTimedOutError("busy")


class BusyController:
    """Answers a broker that wants to stop with these answers, the last of them again and again; an error comes when
    the broker does not wait any more."""

    image = SimpleNamespace(offset=7, brokers={})

    def __init__(self, *answers: ApiError | bool) -> None:
        self.answers = list(answers)
        self.asked_to_stop = 0

    async def wait_for_offset(self, offset: int) -> None:
        """Returns at once."""

    async def call(self, request: object, timeout_ms: int = 0) -> object:
        if isinstance(request, RegisterBrokerRequest):
            return RegisterBrokerResponse(7)
        assert isinstance(request, BrokerHeartbeatRequest)
        if not request.want_shut_down:
            await asyncio.Event().wait()  # what the other task hears is not the point here
        self.asked_to_stop += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            await asyncio.sleep(timeout_ms / 1000)
            raise answer
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=answer)


def stopped(controller: BusyController) -> tuple[bool, float]:
    """True if the stop was granted, and after how many seconds."""

    async def main() -> tuple[bool, float]:
        lifecycle = BrokerLifecycle(
            RegisterBrokerRequest("c", 1, "incarnation", "h", 9, "", 5, ()),
            cast(ControllerChannel, controller),
            cast(MetadataLoader, controller),
            ids=IDS,
            random=Random(0),
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            lease=LeadLease(SESSION_MS, virtual_clock().boot_ms, lambda: 7),
            losses=ReplicaLosses(),
            hosted_replicas=lambda: (),
            on_registered=lambda epoch: None,
            on_caught_up=lambda: None,
        )
        lifecycle.start()
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        lifecycle._answered_s = began  # the last heartbeat was answered just now
        granted = await lifecycle.controlled_shutdown()
        took = loop.time() - began
        await lifecycle.stop()
        return granted, took

    return run_virtual(main())


def test_an_answer_that_does_not_come_is_asked_for_again() -> None:
    controller = BusyController(BUSY, False, BUSY, False, True)
    assert stopped(controller)[0]
    assert controller.asked_to_stop == 5


def test_it_ends_after_a_session_without_an_answer() -> None:
    granted, took = stopped(BusyController(BUSY))
    assert not granted and SESSION_MS <= round(1000 * took) < 2 * SESSION_MS


def test_it_ends_when_the_controller_answers_but_never_grants_it() -> None:
    granted, took = stopped(BusyController(False))
    assert not granted and CONTROLLED_SHUTDOWN_MS_MAX <= round(1000 * took) < CONTROLLED_SHUTDOWN_MS_MAX + SESSION_MS


def test_a_refusal_that_stays_is_not_asked_for_again() -> None:
    controller = BusyController(StaleBrokerEpochError("another process"))
    assert not stopped(controller)[0]
    assert controller.asked_to_stop == 1
