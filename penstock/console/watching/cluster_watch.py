"""The console's watch over its cluster: one client, one sampler and one memory, whatever the number of browsers.

It asks as the console's own user, or as nobody where the cluster takes anybody. Where the cluster wants a user and the
console has none, nothing is watched, and `why_not` says so.

Open pages are told of news once in a step, all at the same moment, so that those who look at the same page share one
question to the cluster; an event is told at once. Where the cluster answers nothing, or is not watched, they are told
to ask all the same: a page that stands still would go on to say that all is well. Not here: what a person may see of it
(pages/watched.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.client.admin.async_admin import AsyncAdmin
from penstock.clock import Clock, SystemClock
from penstock.console.call_limits import CALL_MS, REQUEST_MS
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.last_hour import HourLimits, LastHour
from penstock.console.watching.live_feed import LiveFeed
from penstock.console.watching.sampler import Sampler
from penstock.errors import AuthenticationFailedError, PenstockError

FIRST_TRIES_SECONDS: Final = 2.0
REFUSED_SECONDS: Final = 60.0
NO_USER: Final = (
    "the cluster has users, and this console has none of its own that could watch it; --username and --password-file"
    " give it one"
)

_log = logging.getLogger(__name__)


class ClusterWatch:
    """Watches until `run` is cancelled; what it knows is there at any time."""

    def __init__(
        self,
        settings: ConsoleSettings,
        *,
        limits: HourLimits | None = None,
        clock: Clock | None = None,
        make_admin: Callable[..., Any] = AsyncAdmin,
    ) -> None:
        self._settings, self._make_admin = settings, make_admin
        self.clock: Clock = clock or SystemClock()
        self.hour = LastHour(limits)
        self.feed = LiveFeed()
        self.sampler: Sampler | None = None
        self._why_not = "the cluster has not answered yet"
        self._told = (0, 0)
        """The newest event and the step of which open pages were told last."""

    @property
    def why_not(self) -> str:
        """Why nothing is watched; "" while something is."""
        return self._why_not

    @property
    def part_errors(self) -> dict[str, str]:
        """Why parts of the cluster gave no answer the last time, by their names."""
        return {} if self.sampler is None else dict(self.sampler.statistics().errors)

    @property
    def newest_wall_ms(self) -> int:
        """The time of the newest step, by the calendar as it is now."""
        now_ms = self.clock.boot_ms()
        step_ms = self.hour.limits.step_ms
        newest_ms = (self.hour.now_ms or now_ms) // step_ms * step_ms
        return self.clock.wall_ms() - (now_ms - newest_ms)

    @property
    def since_wall_ms(self) -> int:
        """The time of the first look, by the calendar as it is now; 0 before it."""
        if self.hour.now_ms is None:
            return 0
        return self.clock.wall_ms() - self.ago_ms(self.hour.now_ms - self.hour.watched_ms)

    def ago_ms(self, at_ms: int) -> int:
        """How long ago a moment of the timeline was."""
        return max(0, self.clock.boot_ms() - at_ms)

    def stop(self) -> None:
        """The console begins to end: whoever waits for news hears of it."""
        self.feed.note()

    async def run(self) -> None:
        """Watches and tells until it is cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._watch())
            parts.create_task(self._tell_of_silence())

    async def _watch(self) -> None:
        """Reaches the cluster, and asks."""
        options = {"client_id": "penstock-console-watch", **self._settings.connection, **self._settings.own_login}
        admin = self._make_admin(
            self._settings.bootstrap, **options, request_timeout_ms=REQUEST_MS, default_api_timeout_ms=CALL_MS
        )
        try:
            await self._reach(admin)
            self.sampler = Sampler(admin, self.hour, self.clock, self._maybe_tell)
            await self.sampler.run()
        finally:
            await admin.close()

    def _maybe_tell(self) -> None:
        """A part of the cluster has answered."""
        newest = self.hour.timeline.newest_number, self.clock.boot_ms() // self.hour.limits.step_ms
        if newest != self._told:
            self._told = newest
            self.feed.note()

    async def _tell_of_silence(self) -> None:
        """Open pages hear something at least in every other step."""
        step_ms = self.hour.limits.step_ms
        while True:
            await asyncio.sleep(step_ms / 1000)
            if self.clock.boot_ms() // step_ms > self._told[1] + 1:
                self._maybe_tell()

    async def _reach(self, admin: AsyncAdmin) -> None:
        """Returns once the cluster has answered. A cluster that is away is asked again, and so is one that refuses."""
        while self._why_not:
            try:
                await admin.describe_cluster()
                self._why_not = ""
            except AuthenticationFailedError as error:
                self._why_not = str(error) if self._settings.own_login else NO_USER
                _log.warning("the console does not watch the cluster: %s", self._why_not)
                await asyncio.sleep(REFUSED_SECONDS)
            except PenstockError as error:
                self._why_not = str(error)
                await asyncio.sleep(FIRST_TRIES_SECONDS)
            except Exception as error:  # an answer that no node of ours gives does not end the watch, as in the sampler
                self._why_not = f"the answer cannot be understood: {type(error).__name__}"
                _log.exception("the console does not understand the cluster's first answer")
                await asyncio.sleep(REFUSED_SECONDS)

    def __repr__(self) -> str:
        return f"ClusterWatch({self.hour!r}, {self.feed!r})"
