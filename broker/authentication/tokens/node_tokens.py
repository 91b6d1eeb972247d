"""The tokens that a running node takes: the public keys of each place, and what each listener wants of a token.

A file of keys is read when this is made, and one that does not work refuses the start. A page is asked for once the
node runs, again and again: an issuer that is down stops nobody who logs in by a password, and no node. Not here: the
keys of the configuration (`broker/config/`), and log-ins (logins.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from random import Random

from broker.authentication.tokens.fetching import KeyFetcher, read_file
from broker.authentication.tokens.key_source import KeySource
from broker.authentication.tokens.ports import KeySourceSettings, TokenSettings, TokenStatistics
from broker.authentication.tokens.token_check import check_token
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.sasl.oauthbearer import TokenOwner
from storage.disk.async_files import AioFiles


class TokensOfListener:
    """`ListenerTokens` of ports.py."""

    def __init__(self, settings: TokenSettings, source: KeySource, wall_ms: Callable[[], int]) -> None:
        self.settings, self.source, self._wall_ms = settings, source, wall_ms

    def check(self, token: str) -> TokenOwner:
        return check_token(token, self.source.keys, self.settings, self._wall_ms())

    async def learn(self) -> bool:
        return await self.source.learn()

    def __repr__(self) -> str:
        return f"TokensOfListener({self.source!r})"


class NodeTokens:
    """`Tokens` of ports.py. ConfigError for a file of keys that does not work."""

    def __init__(
        self, listeners: Mapping[str, tuple[TokenSettings, KeySourceSettings]], clock: Clock, random: Random
    ) -> None:
        """Listeners that name the same place in the same way share its keys."""
        self._sources = {
            source: KeySource(source, Backoff(source.backoff_ms, source.backoff_max_ms, random), clock.now_ms)
            for _, source in listeners.values()
        }
        self._listeners = {
            name: TokensOfListener(settings, self._sources[source], clock.wall_ms)
            for name, (settings, source) in listeners.items()
        }
        for found in self._sources.values():
            if found.url.startswith("file:"):
                found.take(read_file(found.url))

    def of(self, listener: str) -> TokensOfListener | None:
        return self._listeners.get(listener)

    async def serve(self, executor: Executor) -> None:
        """Keeps the keys fresh until it is cancelled. `executor` belongs to the caller."""
        fetcher = KeyFetcher(AioFiles(executor), executor)
        async with asyncio.TaskGroup() as group:
            for source in self._sources.values():
                group.create_task(source.serve(fetcher.fetch))

    @property
    def is_reading(self) -> bool:
        """A thread waits for a disk, or for an issuer."""
        return any(source.is_fetching for source in self._sources.values())

    def statistics(self) -> Sequence[TokenStatistics]:
        return [
            TokenStatistics(name, len(found.source.keys or ()), bool(found.source.refused))
            for name, found in self._listeners.items()
        ]

    def __repr__(self) -> str:
        return f"NodeTokens({', '.join(self._listeners)})"
