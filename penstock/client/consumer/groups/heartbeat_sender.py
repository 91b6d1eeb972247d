"""Sends a member's heartbeats while the user's code works, and stops when it has not polled for too long (KIP-62).

One heartbeat is under way at a time. Works on one event loop; other threads write `polled_ms` and `in_poll`. Not here:
what a heartbeat says, and when it is due (membership.py).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from penstock.client.consumer.groups.group_service import GroupService
from penstock.client.consumer.groups.membership import Membership
from penstock.client.consumer.groups.membership_state import MembershipState
from penstock.client.options.config import ConsumerConfig
from penstock.clock import Clock
from penstock.errors import ApiError, RequestTimedOutError
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from penstock.tasks import watch

ATTEMPT_MS = 10_000
"""One heartbeat is given up after this time, well within a session (45 s by default), and begun anew."""

UNANSWERED_MS = 5_000
"""A coordinator that has not answered for this time is logged, once."""

_log = logging.getLogger(__name__)


class GroupTaskOwner(Protocol):
    """The owner of a member's tasks."""

    def on_changed(self) -> None:
        """Something was learnt, or was decided."""
        ...

    def on_death(self, error: BaseException) -> None:
        """The task has ended, which no code expects."""
        ...


class HeartbeatSender:
    """Tells its owner after every answer, and when the member has left because nobody polls."""

    def __init__(
        self,
        member: Membership,
        service: GroupService,
        config: ConsumerConfig,
        clock: Clock,
        owner: GroupTaskOwner,
    ) -> None:
        self._member = member
        self._service = service
        self._clock = clock
        self._attempt_ms = min(config.request_timeout_ms, ATTEMPT_MS)
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._owner = owner
        self.polled_ms = clock.now_ms()
        self.in_poll = False  # a poll that waits for records is a sign of life
        self.sent = 0
        self._unanswered_ms: int | None = None
        """The time of the first heartbeat that nobody has answered."""
        self._is_logged = False
        self._running: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._ended = asyncio.Event()

    def begin(self) -> None:
        """Begins, or begins anew after the program has cancelled all tasks of its loop."""
        self._ended.clear()
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
            watch(self._running, self._owner.on_death)

    def wake(self) -> None:
        """Something may be due."""
        self._woken.set()

    async def _run(self) -> None:
        broken_off = RequestTimedOutError("the heartbeat was broken off")  # of the task before this one, if any
        self._member.on_error(broken_off, self._clock.now_ms())
        while self._member.state is not MembershipState.ABSENT:
            now_ms = self._clock.now_ms()
            left_ms = self.polled_ms + self._max_poll_interval_ms - now_ms
            if left_ms <= 0 and not self.in_poll:
                self._leave_unpolled()
            request = self._member.heartbeat(now_ms)
            if request is not None:
                await self._send(request)
                continue
            due_ms = self._member.next_due_ms()
            waits = [due_ms - now_ms] if due_ms is not None else []
            if left_ms > 0:
                waits.append(left_ms)
            self._woken.clear()
            try:
                async with asyncio.timeout(max(min(waits), 1) / 1000 if waits else None):
                    await self._woken.wait()
            except TimeoutError:
                continue
        self._ended.set()

    async def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        self.sent += 1
        sent_ms = self._clock.now_ms()
        try:
            answer = await self._service.heartbeat(request, self._clock.now_ms() + self._attempt_ms)
        except ApiError as error:
            _log.debug("group %s: heartbeat: %s", request.group_id, error)
            self._maybe_log(request.group_id, error, sent_ms)
            self._member.on_error(error, self._clock.now_ms())
        else:
            if self._is_logged:
                _log.info("group %s: the coordinator answers again", request.group_id)
            self._unanswered_ms, self._is_logged = None, False
            self._member.on_answer(answer, self._clock.now_ms())
        self._owner.on_changed()

    def _maybe_log(self, group_id: str, error: ApiError, sent_ms: int) -> None:
        """Logs a coordinator that does not answer. Without the log a consumer cut off from its brokers looks like one
        whose topics have no new records."""
        if not isinstance(error, RequestTimedOutError):
            self._unanswered_ms, self._is_logged = None, False
            return
        if self._unanswered_ms is None:
            self._unanswered_ms = sent_ms
        silent_ms = self._clock.now_ms() - self._unanswered_ms
        if silent_ms >= UNANSWERED_MS and not self._is_logged:
            self._is_logged = True
            _log.warning("group %s: no heartbeat is answered for %d s: %s", group_id, silent_ms // 1000, error)

    def _leave_unpolled(self) -> None:
        before = self._member.state
        self._member.on_not_polled()
        if self._member.state is not before:
            _log.warning(
                "group %s: no poll for max_poll_interval_ms=%d: the consumer leaves, and joins again at the next poll",
                self._member.identity.group_id,
                self._max_poll_interval_ms,
            )
            self._owner.on_changed()

    async def wait_left(self, timeout_ms: int) -> bool:
        """True once the coordinator was told that the member leaves; False when time is up."""
        self.begin()
        self.wake()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Ends at once. Idempotent."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def __repr__(self) -> str:
        return f"HeartbeatSender({self._member!r}, sent={self.sent})"
