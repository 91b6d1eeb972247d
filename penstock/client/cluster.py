"""Reaches the cluster: bootstrap, metadata refresh, one connection per broker, and calls that any node may answer.

The async driver around MetadataCache. Everything is bounded: bootstrap by `bootstrap_timeout_ms`, a call by its
deadline, one attempt at metadata by METADATA_ATTEMPT_MS, because a paused broker answers nothing and refuses nothing.
At most one refresh runs at a time. Belongs to one event loop. Not here: produce and fetch (sender.py, fetcher.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from penstock.client.channel import Connection
from penstock.client.config import ConnectionConfig
from penstock.client.messages import ClusterSnapshot, TopicInfo
from penstock.client.metadata_cache import MetadataCache
from penstock.client.retry import Backoff
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    BootstrapError,
    LeaderNotAvailableError,
    NetworkError,
    RequestTimedOutError,
    TimedOutError,
    UnknownTopicOrPartitionError,
)
from penstock.types import Endpoint

METADATA_ATTEMPT_MS = 3_000
UNKNOWN_TOPIC_GRACE_MS = 3_000
"""A topic just created may not be known everywhere yet; after this long it does not exist."""

T = TypeVar("T")


class Cluster:
    """The client's way to every broker."""

    def __init__(self, bootstrap: tuple[Endpoint, ...], config: ConnectionConfig, clock: Clock) -> None:
        self.bootstrap = bootstrap
        self.config = config
        self.clock = clock
        self.cache = MetadataCache()
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._connections: dict[Endpoint, Connection] = {}
        self._tracked: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._bootstrapping: asyncio.Task[None] | None = None
        self._turn = 0
        self._closed = False

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called on the loop after every change of the metadata."""
        self._listeners.append(listener)

    def track(self, topics: Iterable[str]) -> None:
        """Every refresh asks for these topics too."""
        self._tracked.update(topics)

    def untrack(self, topic: str) -> None:
        self._tracked.discard(topic)

    def connection_to(self, endpoint: Endpoint) -> Connection:
        found = self._connections.get(endpoint)
        if found is None:
            found = self._connections[endpoint] = Connection(endpoint)
        return found

    def connection(self, node_id: int) -> Connection | None:
        """None when the metadata does not know the node."""
        endpoint = self.cache.endpoint(node_id)
        return self.connection_to(endpoint) if endpoint is not None else None

    # Bootstrap

    async def wait_ready(self) -> None:
        """Returns once any broker has told who is in the cluster; BootstrapError when none does in time."""
        if self.cache.updated_ms >= 0:
            return
        if self._bootstrapping is None:
            self._bootstrapping = asyncio.ensure_future(self._bootstrap())
        try:
            await asyncio.shield(self._bootstrapping)
        finally:
            if self._bootstrapping is not None and self._bootstrapping.done():
                self._bootstrapping = None

    async def _bootstrap(self) -> None:
        """All addresses at once; the first answer wins."""
        limit_ms = self.config.bootstrap_timeout_ms
        asked = {asyncio.ensure_future(self._try(endpoint, limit_ms)) for endpoint in self.bootstrap}
        failures: dict[Endpoint, str] = {}
        try:
            for next_answer in asyncio.as_completed(asked, timeout=limit_ms / 1000 + 1):
                endpoint, answer = await next_answer
                if isinstance(answer, ClusterSnapshot):
                    self._learn(answer)
                    return
                failures[endpoint] = str(answer)
        except TimeoutError:
            failures.update({e: f"{e}: no answer within {limit_ms} ms" for e in self.bootstrap if e not in failures})
        finally:
            for task in asked:
                task.cancel()
        reasons = "; ".join(failures[endpoint] for endpoint in self.bootstrap if endpoint in failures)
        raise BootstrapError(f"no bootstrap address answered as a Penstock broker: {reasons}")

    async def _try(self, endpoint: Endpoint, limit_ms: int) -> tuple[Endpoint, ClusterSnapshot | ApiError]:
        try:
            return endpoint, await self.connection_to(endpoint).metadata(sorted(self._tracked), limit_ms)
        except ApiError as error:
            return endpoint, error

    # Metadata

    def _learn(self, snapshot: ClusterSnapshot) -> None:
        self.cache.update(snapshot, self.clock.now_ms())
        self.notify()

    def notify(self) -> None:
        """Tells every listener that the metadata changed (a hint counts)."""
        for listener in self._listeners:
            listener()

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterSnapshot:
        """Asks any broker for the tracked topics and `topics`."""
        await self.wait_ready()
        names = sorted(self._tracked.union(topics))
        deadline_ms = self.clock.now_ms() + self.config.request_timeout_ms
        snapshot = await self.ask_any(lambda c, ms: c.metadata(names, min(ms, METADATA_ATTEMPT_MS)), deadline_ms)
        self._learn(snapshot)
        return snapshot

    def refresh_soon(self) -> None:
        """Starts a refresh in the background unless one runs."""
        if self._closed or (self._refreshing is not None and not self._refreshing.done()):
            return
        self._refreshing = asyncio.ensure_future(self._refresh_until_it_works())

    def maybe_refresh(self, now_ms: int) -> None:
        """Starts a refresh when the metadata is older than metadata_max_age_ms."""
        if 0 <= self.cache.updated_ms < now_ms - self.config.metadata_max_age_ms:
            self.refresh_soon()

    async def _refresh_until_it_works(self) -> None:
        attempt = 0
        while not self._closed:
            attempt += 1
            try:
                await self.refresh()
                await self._pause(attempt)  # not more often than the back-off, even when it works
                return
            except (ApiError, BootstrapError, TimedOutError):
                await self._pause(attempt)

    async def _pause(self, attempt: int) -> None:
        await asyncio.sleep(max(self.backoff.wait_ms(attempt), 1) / 1000)

    async def topic(self, name: str, timeout_ms: int) -> TopicInfo:
        """The topic once it is known; UnknownTopicOrPartitionError when it does not exist."""
        found = self.cache.topic(name)
        if found is not None:
            return found
        start_ms = self.clock.now_ms()
        attempt = 0
        while True:
            attempt += 1
            snapshot = await self.refresh((name,))
            answer = next((topic for topic in snapshot.topics if topic.name == name), None)
            if answer is not None and answer.error is None and answer.partitions:
                self._tracked.add(name)
                return answer
            error = answer.error if answer is not None else None
            if error is not None and not error.retriable:
                raise error
            waited_ms = self.clock.now_ms() - start_ms
            if waited_ms >= min(timeout_ms, UNKNOWN_TOPIC_GRACE_MS):
                if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
                    raise error
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} does not exist (asked for {waited_ms} ms);"
                    f" create it first: penstock topics create {name}"
                )
            await self._pause(attempt)

    # Calls

    async def ask_any(self, ask: Callable[[Connection, int], Awaitable[T]], deadline_ms: int) -> T:
        """The answer of whichever node gives one; retriable errors go on to the next node until the deadline."""
        attempt = 0
        preferred: Endpoint | None = None
        while True:
            endpoints = self._candidates()
            endpoint = preferred or endpoints[self._turn % len(endpoints)]
            left_ms = max(deadline_ms - self.clock.now_ms(), 1)
            attempt += 1
            try:
                return await ask(self.connection_to(endpoint), min(left_ms, self.config.request_timeout_ms))
            except ApiError as error:
                if not error.retriable:
                    raise
                preferred = (
                    error.leader.endpoint if error.leader is not None and error.leader.endpoint != endpoint else None
                )
                self._turn += 1
                wait_ms = self.backoff.wait_ms(1 + attempt // len(endpoints)) if attempt >= len(endpoints) else 0
                if self.clock.now_ms() + wait_ms >= deadline_ms:
                    if isinstance(error, (NetworkError, RequestTimedOutError)):
                        raise TimedOutError(
                            f"no broker answered in time ({attempt} attempts); the last said: {error}"
                        ) from error
                    raise
            if preferred is None and wait_ms:
                await asyncio.sleep(wait_ms / 1000)

    def _candidates(self) -> tuple[Endpoint, ...]:
        """The brokers in service, else whoever was given to bootstrap from."""
        live = tuple(broker.endpoint for broker in self.cache.brokers if not broker.fenced)
        return (
            live
            if live and self._turn % (2 * len(live)) < len(live)
            else live + tuple(endpoint for endpoint in self.bootstrap if endpoint not in live) or self.bootstrap
        )

    def require_leader_endpoint(self, node_id: int) -> Connection:
        """The connection to a node that leads something; LeaderNotAvailableError when nobody knows where it is."""
        connection = self.connection(node_id)
        if connection is None:
            raise LeaderNotAvailableError(f"node {node_id} leads the partition, but its endpoint is not known")
        return connection

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        self._closed = True
        for task in (self._refreshing, self._bootstrapping):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)

    def __repr__(self) -> str:
        return f"Cluster(bootstrap={','.join(map(str, self.bootstrap))}, {self.cache!r})"
