"""Keeps the public keys of one place fresh: asked for again and again, and when a token names a key that is not known.

    served    every `refresh_ms`; after a failure sooner, with waits that double
    learn     when somebody shows a token of an unknown key, at most once in LEARN_MS_MIN: who makes up names of keys
              has a node, and its issuer, do no more than that

What was asked for is taken whole or not at all. While it cannot be had, or does not work, the keys before stay in
force, the log says why once, and the metrics show it. On the event loop. Not here: how it is asked for (fetching.py),
and what is in it (key_set.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from broker.authentication.tokens.ports import KeySourceSettings
from penstock.backoff import Backoff
from penstock.errors import ConfigError
from penstock.tokens.key_set import KeySet, read_key_set

_log = logging.getLogger(__name__)

LEARN_MS_MIN: Final = 10_000
LEARN_SECONDS: Final = 15.0
"""The longest wait of a log-in for keys: longer than a fetch may take."""
FILE_REFRESH_MS_MAX: Final = 5_000
"""A file costs nothing to look at."""


class KeySource:
    """One place: its keys, and why the newest ones were not taken."""

    def __init__(self, settings: KeySourceSettings, backoff: Backoff, now_ms: Callable[[], int]) -> None:
        """`now_ms` is monotonic."""
        self.url, self._backoff, self._now_ms = settings.url, backoff, now_ms
        is_file = self.url.startswith("file:")
        self._refresh_ms = min(settings.refresh_ms, FILE_REFRESH_MS_MAX) if is_file else settings.refresh_ms
        self.keys: KeySet | None = None
        self.refused = ""
        """The reason why the present keys of the place were not taken."""
        self.is_fetching = False
        self._seen = b""
        self._is_served = False
        self._learned_ms: int | None = None
        """The time at which a log-in had the keys asked for last."""
        self._asked = asyncio.Event()
        self._waiting: set[asyncio.Future[None]] = set()

    def take(self, data: bytes) -> None:
        """Use what is there. ConfigError, and no change, if it does not work."""
        if self.keys is None or data != self._seen:
            try:
                keys = read_key_set(data)
            except ConfigError as error:
                raise ConfigError(f"{self.url}: {error}") from None
            self.keys, self._seen = keys, data
            _log.info("%s: %d public keys are in force: %r", self.url, len(keys), keys)
        self.refused = ""

    async def serve(self, fetch: Callable[[str], Awaitable[bytes]]) -> None:
        """Asks until it is cancelled. `fetch` gives what is there, or raises OSError or ConfigError."""
        failures = 0
        while True:
            failures = 0 if await self._look(fetch) else failures + 1
            wait_ms = min(self._backoff.wait_ms(failures), self._refresh_ms) if failures else self._refresh_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._asked.wait()

    async def _look(self, fetch: Callable[[str], Awaitable[bytes]]) -> bool:
        self._asked.clear()
        self._is_served = True
        self.is_fetching = True  # and stays True where the wait is cancelled: a thread is still under way
        try:
            self.take(await fetch(self.url))
        except (ConfigError, OSError) as error:
            self._refuse(str(error))
        except Exception as error:  # a mistake of ours, or of a library: the next keys must be looked at all the same
            self._refuse(f"{self.url}: unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        self.is_fetching = False
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        return not self.refused

    def _refuse(self, why: str) -> None:
        if why != self.refused:
            stay = "and the old ones go on" if self.keys is not None else "and nobody can log in by a token"
            _log.error("public keys were not taken, %s: %s", stay, why)
        self.refused = why

    async def learn(self) -> bool:
        """True once the keys have been asked for anew; False if they were so a moment ago, or nobody answers."""
        if not self.is_fetching and not self._asked.is_set():
            now_ms = self._now_ms()
            is_soon = self._learned_ms is not None and now_ms - self._learned_ms < LEARN_MS_MIN
            if is_soon or not self._is_served:
                return False
            self._learned_ms = now_ms
            self._asked.set()
        answered = asyncio.get_running_loop().create_future()
        self._waiting.add(answered)
        try:
            async with asyncio.timeout(LEARN_SECONDS):
                await answered
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(answered)
        return True

    def __repr__(self) -> str:
        return f"KeySource({self.url}, {self.keys!r})"
