"""Promises of a broker that starts: it serves once its calendar was compared with those of others, and not much later.

A leader stamps, and judges producers' times, by its calendar. Not here: the comparison (test_calendars.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.jobs.wall_clock import WallClockGuard
from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.node.registration.calendar_comparison import COMPARED_ANEW_MAX
from broker.node.registration.replica_losses import ReplicaLosses
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.lead_lease import LeadLease
from broker.quorum.metadata_loader import MetadataLoader
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.clock import ManualClock
from penstock.errors import NotControllerError
from penstock.messages.nodes.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from penstock.messages.nodes.brokers import CalendarVerdict as Verdict
from penstock.types import NO_EPOCH, NO_OFFSET
from tests.support.machine import IDS
from tests.support.virtual_time import run_virtual

INTERVAL_MS, SESSION_MS, OFFSET = 1_000, 6_000, 7
QUICK_MS = INTERVAL_MS // 10


class Image:
    """The metadata of a broker that has read all of it."""

    image = SimpleNamespace(offset=OFFSET, brokers={})

    async def wait_for_offset(self, offset: int) -> None:
        """It has it."""


class JudgingController:
    """Gives these verdicts in turn, the last one again and again; lets a broker serve that has told its offset."""

    def __init__(self, verdicts: list[Verdict], silent_ms: range) -> None:
        self._verdicts, self._silent_ms = verdicts, silent_ms
        self.sent: list[tuple[int, int]] = []
        """When each heartbeat came, in ms from the first one, and its metadata offset."""
        self._first_s: float | None = None

    async def call(self, request: Any, timeout_ms: int = 0) -> Any:
        if isinstance(request, RegisterBrokerRequest):
            return RegisterBrokerResponse(OFFSET)
        assert isinstance(request, BrokerHeartbeatRequest)
        now_s = asyncio.get_running_loop().time()
        self._first_s = now_s if self._first_s is None else self._first_s
        now_ms = round((now_s - self._first_s) * 1_000)
        if now_ms in self._silent_ms:
            raise NotControllerError("the quorum has no leader")
        self.sent.append((now_ms, request.current_metadata_offset))
        verdict = self._verdicts[min(len(self.sent), len(self._verdicts)) - 1]
        is_fenced = request.current_metadata_offset == NO_OFFSET
        return BrokerHeartbeatResponse(
            is_caught_up=not is_fenced, is_fenced=is_fenced, should_shut_down=False, calendar=verdict
        )


def heartbeats(
    verdicts: list[Verdict],
    run_ms: int,
    meanwhile: Callable[[BrokerLifecycle], object] = bool,
    at_ms: int = 0,
    silent_ms: range = range(0),
) -> list[tuple[int, int]]:
    """The answered heartbeats of a broker in so much time. `meanwhile` is called at `at_ms`, and no controller answers
    in `silent_ms`."""

    async def main() -> list[tuple[int, int]]:
        controller = JudgingController(verdicts, silent_ms)
        lifecycle = BrokerLifecycle(
            RegisterBrokerRequest("c", 1, "incarnation", "h", 9, "", 5, ()),
            cast(ControllerChannel, controller),
            cast(MetadataLoader, Image()),
            ids=IDS,
            random=Random(0),
            heartbeat_interval_ms=INTERVAL_MS,
            session_timeout_ms=SESSION_MS,
            lease=LeadLease(6, lambda: 0, lambda: OFFSET),
            losses=ReplicaLosses(),
            hosted_replicas=lambda: (),
            on_registered=lambda epoch: None,
            on_caught_up=lambda: None,
            calendar=WallClockGuard(ManualClock(), is_compared=True),
        )
        lifecycle.start()
        await asyncio.sleep(at_ms / 1_000)
        meanwhile(lifecycle)
        await asyncio.sleep((run_ms - at_ms) / 1_000)
        await lifecycle.stop()
        return controller.sent

    return run_virtual(main())


def published(*broker_ids: int, epoch: int = NO_EPOCH) -> Callable[[BrokerLifecycle], object]:
    """The metadata has these brokers now, by the controller of this epoch."""
    image = cast(MetadataImage, SimpleNamespace(brokers=dict.fromkeys(broker_ids), epoch=epoch))
    return lambda lifecycle: lifecycle.published(cast(MetadataDelta, None), image)


@pytest.mark.parametrize("verdict", [Verdict.AGREES, Verdict.APART, Verdict.ALONE, Verdict.UNSPECIFIED])
def test_a_broker_asks_to_serve_as_soon_as_its_calendar_was_compared(verdict: Verdict) -> None:
    assert heartbeats([verdict], 50) == [(0, NO_OFFSET), (0, OFFSET)]
    assert heartbeats([Verdict.UNSETTLED, Verdict.UNSETTLED, verdict], 250) == [
        (0, NO_OFFSET),
        (QUICK_MS, NO_OFFSET),
        (2 * QUICK_MS, NO_OFFSET),
        (2 * QUICK_MS, OFFSET),
    ]


def test_a_broker_whose_others_tell_nothing_serves_after_a_session(caplog: pytest.LogCaptureFixture) -> None:
    sent = heartbeats([Verdict.UNSETTLED], SESSION_MS + INTERVAL_MS // 2)
    assert sent[-1] == (SESSION_MS, OFFSET) and {offset for _, offset in sent[:-1]} == {NO_OFFSET}
    assert "broker 1 serves by its own calendar" in caplog.text


def served_at_ms(sent: list[tuple[int, int]]) -> int:
    return next(at_ms for at_ms, offset in sent if offset == OFFSET)


def test_a_broker_gives_a_new_controller_a_session_to_hear_of_the_others() -> None:
    """The new one knows no calendar, and would let the broker lead by its own."""
    late_ms = SESSION_MS - 50
    sent = heartbeats([Verdict.UNSETTLED], 3 * SESSION_MS, published(1, 2, epoch=5), at_ms=late_ms)
    assert served_at_ms(sent) == pytest.approx(late_ms + SESSION_MS, abs=QUICK_MS)


def test_a_broker_does_not_lead_by_its_own_calendar_as_soon_as_a_controller_answers_again() -> None:
    """All sessions of the others begin anew with it, too."""
    silent_ms = range(SESSION_MS // 2, 5 * SESSION_MS)
    sent = heartbeats([Verdict.UNSETTLED], 7 * SESSION_MS, silent_ms=silent_ms)
    assert served_at_ms(sent) == pytest.approx(silent_ms.stop + SESSION_MS, abs=2 * QUICK_MS)


def test_controllers_that_change_all_the_time_keep_no_broker_from_leading() -> None:
    def changes(lifecycle: BrokerLifecycle) -> None:
        for epoch in range(100):
            wait_s = epoch * SESSION_MS / 2 / 1_000
            asyncio.get_running_loop().call_later(wait_s, published(1, 2, epoch=epoch), lifecycle)

    sent = heartbeats([Verdict.UNSETTLED], 8 * SESSION_MS, changes, at_ms=1)
    assert served_at_ms(sent) < (1 + COMPARED_ANEW_MAX) * SESSION_MS


def test_a_broker_that_serves_goes_on_when_the_calendars_of_others_are_not_known_any_more() -> None:
    sent = heartbeats([Verdict.AGREES, Verdict.AGREES, Verdict.UNSETTLED], 5 * INTERVAL_MS + 50)
    assert [offset for _, offset in sent] == [NO_OFFSET, *[OFFSET] * 6]


def test_a_broker_that_was_alone_tells_its_calendar_at_once_when_another_one_comes() -> None:
    """The other one leads nothing before the two are compared."""
    verdicts = [Verdict.ALONE, Verdict.ALONE, Verdict.UNSETTLED, Verdict.APART]
    sent = heartbeats(verdicts, 1_500, published(1, 2), at_ms=300)
    assert sent == [(0, NO_OFFSET), (0, OFFSET), (300, OFFSET), (300 + QUICK_MS, OFFSET), (1_400, OFFSET)]


def test_a_broker_that_was_alone_is_not_hurried_by_other_news() -> None:
    sent = heartbeats([Verdict.ALONE], 900, lambda lifecycle: [published()(lifecycle), published()(lifecycle)], at_ms=5)
    assert sent == [(0, NO_OFFSET), (0, OFFSET)]
