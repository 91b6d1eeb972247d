"""Reaches the cluster: bootstrap, metadata refresh, and one connection per broker.

The async driver around MetadataCache. Everything is bounded: bootstrap by `bootstrap_timeout_ms`, a call by its
deadline. At most one refresh runs at a time. Belongs to one event loop. Not here: questions that any node may answer
(any_node.py), those to leaders (by_leader.py), produce and fetch (sender.py, fetcher.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from penstock.backoff import Backoff
from penstock.client.cluster.any_node import AnyNode
from penstock.client.cluster.bootstrap import Bootstrap
from penstock.client.cluster.connections import CLOSED, ClientConnections
from penstock.client.cluster.metadata_cache import METADATA_OLD_MS, MetadataCache
from penstock.client.cluster.metadata_question import metadata_question
from penstock.client.cluster.node_choice import NodeChoice
from penstock.client.cluster.tracked_topics import TrackedTopics
from penstock.client.cluster.waiting_calls import WaitingCalls
from penstock.client.environment import ClientEnvironment
from penstock.client.options.config import ConnectionConfig
from penstock.client.wire.connection import Connection
from penstock.errors import (
    ApiError,
    BootstrapError,
    ClientClosedError,
    LeaderNotAvailableError,
    TimedOutError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.metadata import MetadataResponse, TopicInfo
from penstock.topic_names import validate_topic_name
from penstock.types import Endpoint

UNKNOWN_TOPIC_GRACE_MS = 3_000
"""A topic just created may not be known everywhere yet; after this long it does not exist."""

_log = logging.getLogger(__name__)


class ClusterClient:
    """The client's way to every broker."""

    def __init__(
        self,
        bootstrap: tuple[Endpoint, ...],
        config: ConnectionConfig,
        environment: ClientEnvironment,
    ) -> None:
        self.bootstrap = bootstrap
        self.config = config
        self.clock = environment.clock
        self.cache = MetadataCache()
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, environment.random)
        self.connections = ClientConnections(environment.transport, bootstrap, self.cache, config)
        self.cache.silence = self.connections.silence
        self.tracked = TrackedTopics(config.metadata_max_idle_ms, environment.clock.now_ms)
        self._listeners: list[Callable[[], None]] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._bootstrapping: asyncio.Task[None] | None = None
        self._ageing: asyncio.TimerHandle | None = None  # until the metadata is older than metadata_max_age_ms
        self.choice = NodeChoice(bootstrap)
        self.any_node = AnyNode(
            connection_to=self.connection_to,
            live=self._live,
            choice=self.choice,
            clock=self.clock,
            backoff=self.backoff,
            request_timeout_ms=config.request_timeout_ms,
        )
        self.waiting_calls = WaitingCalls()
        self._closed = False

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called on the loop after every change of the metadata."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def track(self, topics: Iterable[str]) -> None:
        """Every refresh asks for these topics too, as long as they are used."""
        self.tracked.add(topics)

    def connection_to(self, endpoint: Endpoint) -> Connection:
        """ClientClosedError once it is closed: nobody would close another connection."""
        return self.connections.to(endpoint)

    def connection(self, node_id: int) -> Connection | None:
        """The connection to a node; None if the metadata does not know the node."""
        endpoint = self.cache.endpoint(node_id)
        return self.connection_to(endpoint) if endpoint is not None else None

    # -- bootstrap -----------------------------------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Returns once any broker has told who is in the cluster; BootstrapError when none does in time."""
        while self.cache.updated_ms < 0:
            if self._closed:
                raise ClientClosedError(CLOSED)
            if self._bootstrapping is None:
                self._bootstrapping = asyncio.ensure_future(self._bootstrap())
            try:
                await asyncio.shield(self._bootstrapping)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise  # else a close, or the program, has cancelled the first contact and not this call
            finally:
                if self._bootstrapping is not None and self._bootstrapping.done():
                    self._bootstrapping = None

    async def _bootstrap(self) -> None:
        async def ask(endpoint: Endpoint, timeout_ms: int) -> MetadataResponse:
            return await self.connection_to(endpoint).metadata(self.tracked.names(), timeout_ms)

        def is_old(answer: MetadataResponse) -> bool:
            return answer.metadata_age_ms >= METADATA_OLD_MS or self.cache.is_stale(answer)

        limit_ms = self.config.bootstrap_timeout_ms
        answer = await Bootstrap(
            addresses=self.bootstrap, ask=ask, is_old=is_old, limit_ms=limit_ms, clock=self.clock, backoff=self.backoff
        ).first_answer()
        self._learn(answer)
        self._begin_age()

    # -- metadata ------------------------------------------------------------------------------------------------------

    def _learn(self, snapshot: MetadataResponse) -> None:
        known = self.cache.cluster_id
        if known and snapshot.cluster_id != known:  # told and followed: topic ids keep the clusters' data apart
            _log.warning(
                "the cluster behind bootstrap %s was %s and is %s now: if it was not replaced on purpose, the"
                " addresses lead to two clusters",
                ",".join(map(str, self.bootstrap)),
                known,
                snapshot.cluster_id,
            )
        self.cache.update(snapshot, self.clock.now_ms())
        for topic in self.tracked.forget_unused(() if self.cache.is_stale(snapshot) else snapshot.topics):
            self.cache.forget(topic)
        self.notify()

    def notify(self) -> None:
        """Tells every listener that the metadata changed (a hint counts)."""
        for listener in tuple(self._listeners):
            listener()

    async def refresh(
        self, topics: Iterable[str] = (), avoid: Collection[Endpoint] = (), deadline_ms: int | None = None
    ) -> MetadataResponse:
        """Asks any broker for the tracked topics and `topics`; a broker in `avoid` only if there is no other."""
        await self.wait_ready()
        names = sorted({*self.tracked.names(), *topics})
        if deadline_ms is None:
            deadline_ms = self.clock.now_ms() + self.config.request_timeout_ms
        snapshot = await self._ask_metadata(names, deadline_ms, avoid)
        self._learn(snapshot)
        self._begin_age()
        return snapshot

    def _begin_age(self) -> None:
        """Starts the age of the tracked topics' metadata. Metadata that is too old is asked for again, though nothing
        failed."""
        self._end_age()
        if not self._closed:
            self._ageing = asyncio.get_running_loop().call_later(self.config.metadata_max_age_ms / 1000, self._on_old)

    def _end_age(self) -> None:
        if self._ageing is not None:
            self._ageing.cancel()
            self._ageing = None

    def _on_old(self) -> None:
        self._begin_age()  # BEFORE asking, which does nothing while a refresh is under way
        self.refresh_soon()

    async def list_topics(
        self, deadline_ms: int, names: Sequence[str] | None = None, include_log_dirs: bool = False
    ) -> tuple[TopicInfo, ...]:
        """These topics, or all, from a node whose metadata is not older than what was seen before; not cached."""
        await self.wait_ready()
        snapshot = await self._ask_metadata(names, deadline_ms, include_log_dirs=include_log_dirs)
        self._learn(replace(snapshot, topics=()))
        return snapshot.topics

    async def _ask_metadata(
        self,
        names: Sequence[str] | None,
        deadline_ms: int,
        avoid: Collection[Endpoint] = (),
        include_log_dirs: bool = False,
    ) -> MetadataResponse:
        question = metadata_question(
            self.cache, names, include_log_dirs, lambda: len(self.choice.candidates(self._live()))
        )
        return await self.any_node.ask(question, deadline_ms, read_only=True, avoid=avoid)

    def refresh_soon(self, avoid: Collection[Endpoint] = ()) -> None:
        """Starts a refresh in the background unless one runs.

        `avoid` are nodes that may hang. The node to ask changes from one refresh to the next: a node that is cut off
        from the others answers at once, and knows nothing of a new leader.
        """
        if self._closed or (self._refreshing is not None and not self._refreshing.done()):
            return
        self.choice.turn(self._live())
        self._refreshing = asyncio.ensure_future(self._refresh_until_it_works(avoid))

    def ask_another(self) -> None:
        """The node that answered last knew of nobody: it may be cut off from the others. Another one is asked next; a
        client that knows the bootstrap addresses alone first learns of others."""
        self.choice.turn(self._live())
        if not self.cache.brokers:
            self.refresh_soon()

    async def _refresh_until_it_works(self, avoid: Collection[Endpoint]) -> None:
        attempt = 0
        while not self._closed:
            attempt += 1
            try:
                await self.refresh(avoid=avoid)
                await self._pause(attempt)  # not more often than the back-off, even when it works
                return
            except (ApiError, BootstrapError, TimedOutError):
                await self._pause(attempt)

    async def _pause(self, attempt: int) -> None:
        await asyncio.sleep(max(self.backoff.wait_ms(attempt), 1) / 1000)

    async def topic(self, name: str, timeout_ms: int) -> TopicInfo:
        """The topic once it is known; UnknownTopicOrPartitionError when it does not exist."""
        found = self.cache.topic(name)
        if found is not None and name in self.tracked:  # any other was learnt once, and may be deleted by now
            return found
        validate_topic_name(name)
        start_ms = self.clock.now_ms()
        attempt = 0
        while True:
            attempt += 1
            snapshot = await self.refresh((name,), deadline_ms=start_ms + max(timeout_ms, 1))
            answer = next((topic for topic in snapshot.topics if topic.name == name), None)
            if answer is not None and answer.error is None and answer.partitions:
                self.tracked.add((name,))
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

    async def meet_topics(self, names: Iterable[str], deadline_ms: int) -> None:
        """Learns all of these in one request; what has no answer yet is left to `topic`."""
        unknown = {name for name in names if name not in self.tracked}
        if len(unknown) > 1:
            snapshot = await self.refresh(unknown, deadline_ms=deadline_ms)
            self.track(t.name for t in snapshot.topics if t.name in unknown and t.error is None and t.partitions)

    async def meet_topic(self, name: str, topic_id: str) -> None:
        """Returns once the topic of that name is known by this id, or UNKNOWN_TOPIC_GRACE_MS later.

        The caller may have learnt the id before this client, or the nodes that it asks, knew the topic.
        """
        deadline_ms = self.clock.now_ms() + UNKNOWN_TOPIC_GRACE_MS
        attempt = 0
        while self.cache.topic_id(name) != topic_id and self.clock.now_ms() < deadline_ms:
            if attempt:
                await self._pause(attempt)
            attempt += 1
            await self.refresh((name,))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _live(self) -> tuple[Endpoint, ...]:
        """The addresses of the brokers in service."""
        return tuple(broker.endpoint for broker in self.cache.brokers if not broker.fenced)

    def require_connection(self, node_id: int) -> Connection:
        """The connection to a node that leads something; LeaderNotAvailableError if its address is not known."""
        connection = self.connection(node_id)
        if connection is None:
            raise LeaderNotAvailableError(f"node {node_id} leads the partition, but its endpoint is not known")
        return connection

    def begin_close(self) -> None:
        """Ends the calls that wait, and begins nothing from now on. Idempotent."""
        self._closed = self.connections.closed = True
        self.waiting_calls.close()

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        self.begin_close()
        self._end_age()
        for task in (self._refreshing, self._bootstrapping):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.connections.close()

    def __repr__(self) -> str:
        return f"ClusterClient(bootstrap={','.join(map(str, self.bootstrap))}, {self.cache!r})"
