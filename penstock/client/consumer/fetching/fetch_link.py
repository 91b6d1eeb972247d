"""One fetch stream to one broker, one request at a time: ask, take the answer, ask again while there is room.

An answer has moved positions and is in the buffer before anything else can go wrong. A stream that ends, in order or
not, is opened again from where the positions are. When the wanted partitions change under a waiting request (a seek,
another assignment, a newer leader epoch), the stream is given up for a new one. A broker that is silent for longer
than it was told to wait is suspected: other nodes are asked who leads now, and the request under way goes on, because a
slow disk is silent too. A stream that ends with an error that asking again does not mend is opened again too, but the
user gets the error. A broker whose quota the client has used up says for how long it reads nothing (KIP-219), and is
asked again after that: it is not silent, and a request to it does not run out of time unread. Not here: what to want
(positions.py) and what an answer means (fetcher.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from penstock.backoff import Backoff
from penstock.client.consumer.fetching.fetch_buffer import FetchRefusal
from penstock.client.consumer.fetching.fetch_session_view import FetchSessionView, SessionDelta
from penstock.client.wire.connection import Connection, ConsumerFetchStream
from penstock.errors import ApiError, NetworkError, RequestTimedOutError, UnknownServerError
from penstock.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionFetchResult
from penstock.types import NO_LEADER, TopicPartition

SILENCE_MS = 1_000
"""A broker is suspected of silence when its answer is this late, and again each time this long has passed."""

UNKNOWN_ERRORS_MAX = 4
"""How many times in a row a stream may end with an error of unknown cause before the user hears of it. A broker that is
killed may end a stream so, and is replaced by then."""

_log = logging.getLogger(__name__)

Wanted = Mapping[TopicPartition, FetchPartition]


class LinkOwner(Protocol):
    """The part of the fetcher that a link calls."""

    backoff: Backoff

    def wanted(self, node_id: int) -> Wanted:
        """The partitions to fetch from this broker now; empty while the buffer is full."""
        ...

    def call(self, node_id: int, delta: SessionDelta) -> FetchRequest: ...

    def on_answer(self, node_id: int, answer: FetchResponse) -> None:
        """Moves the positions on and puts the records into the buffer, in one step."""
        ...

    def on_throttled(self, throttle_ms: int) -> None:
        """The quota is used up; the next request waits for this time."""
        ...

    def on_broken(self, node_id: int, error: ApiError) -> None: ...

    def on_refused(self, node_id: int, refusal: FetchRefusal) -> None:
        """Asking again does not help: the user gets the error, after what was fetched before. A follower's does not
        count."""
        ...

    def on_cancelled(self, link: FetchLink) -> None:
        """The program has cancelled the link's task, which ends."""
        ...

    def on_silent(self, node_id: int) -> None:
        """An answer is late; another node may know of a new leader."""
        ...


class FetchLink:
    """A task that keeps one broker's fetches going."""

    def __init__(self, node_id: int, connection: Connection, owner: LinkOwner, time_out_ms: int) -> None:
        self.node_id = node_id
        self.connection = connection
        self._owner = owner
        self._time_out_ms = time_out_ms
        self._session = FetchSessionView()
        self._stream: ConsumerFetchStream | None = None
        self._asking = False
        self._watching: asyncio.TimerHandle | None = None
        self._restart = False
        self._is_closing = False
        self._touched = asyncio.Event()
        self._waits = False
        """Nothing was wanted at the last look."""
        self._failures = 0
        self._throttled_until_s = 0.0
        """The broker reads nothing before, by the loop's time."""
        self.trouble = ""
        """The trouble of this broker's fetches now: its last error, or that its answer is late."""
        self._refusal = FetchRefusal()
        self._fetching: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """A callback, because a task that is cancelled before its first step runs no line of its own."""
        if task.cancelled() and not self._is_closing:
            self._owner.on_cancelled(self)

    @property
    def waits(self) -> bool:
        """True if it asks nothing until it is touched."""
        return self._waits and not self._touched.is_set()

    def touch(self) -> None:
        """The wanted partitions, or the room for them, may have changed."""
        self._touched.set()
        if self._asking and self._stream is not None and not self._restart:
            wanted = self._owner.wanted(self.node_id)
            if wanted and not self._session.knows(wanted):
                self._restart = True
                self._fetching.cancel()

    async def _run(self) -> None:
        while True:
            self._fetching = asyncio.ensure_future(self._fetch_for_ever())
            try:
                await self._fetching
            except asyncio.CancelledError:
                self._fetching.cancel()
                self._drop_stream()
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._restart = False  # `touch`, or the program, has cancelled the fetch alone
            except Exception as error:
                self._drop_stream()
                self._restart = False
                self._failures += 1
                if not isinstance(error, ApiError):  # a bug of ours: told, and not the end of fetching
                    _log.exception("fetching from node %d", self.node_id)
                    error = UnknownServerError(repr(error))
                self.trouble = f"{error.kafka_name}: {error}"
                self._owner.on_broken(self.node_id, error)
                self._maybe_refuse(error)
                await asyncio.sleep(max(self._owner.backoff.wait_ms(self._failures), 1) / 1000)

    def _maybe_refuse(self, error: ApiError) -> None:
        """Tells of an error that asking again does not mend; it takes the place of one that was not raised yet."""
        is_unknown = isinstance(error, UnknownServerError) and self._failures <= UNKNOWN_ERRORS_MAX
        if error.retriable or is_unknown:
            return
        self._refusal.error = error
        if not self._refusal.queued:
            self._refusal.queued = True
            self._owner.on_refused(self.node_id, self._refusal)

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._stream, self._session = None, FetchSessionView()

    async def _fetch_for_ever(self) -> None:
        while True:
            await self._wait_throttled()
            self._touched.clear()
            wanted = self._owner.wanted(self.node_id)
            self._waits = not wanted
            if not wanted:
                await self._touched.wait()
                continue
            if self._stream is None:
                self._stream = self.connection.open_fetch()
            answer = await self._exchange(self._stream, self._owner.call(self.node_id, self._session.advance(wanted)))
            self._note_throttle(answer.throttle_time_ms)
            if answer.error is not None:
                raise answer.error
            self._failures = 0
            self.trouble = ""
            self._refusal.error = None
            self._session.forget(r.partition for r in answer.partitions if r.error is not None)
            self._session.sent(r.partition for r in answer.partitions if says_something(r))
            self._owner.on_answer(self.node_id, answer)
            del answer  # its megabytes are freed before the next ones come

    def _note_throttle(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._throttled_until_s = asyncio.get_running_loop().time() + throttle_ms / 1_000
            self._owner.on_throttled(throttle_ms)

    async def _wait_throttled(self) -> None:
        left_s = self._throttled_until_s - asyncio.get_running_loop().time()
        if left_s > 0:
            self.trouble = f"the client's quota is used up; the next fetch is in {left_s:.1f} s"
            await asyncio.sleep(left_s)
            self.trouble = ""

    async def _exchange(self, stream: ConsumerFetchStream, call: FetchRequest) -> FetchResponse:
        """The answer; a broker that is silent for too long is treated as gone."""
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self._time_out_ms / 1000, stream.cancel)
        self._watch((call.max_wait_ms + SILENCE_MS) / 1000)
        self._asking = True
        try:
            await stream.write(call)
            return await stream.read()
        except NetworkError:
            if loop.time() >= limit.when():
                raise RequestTimedOutError(
                    f"{self.connection.endpoint}: no answer to a fetch within {self._time_out_ms} ms"
                ) from None
            raise
        finally:
            self._asking = False
            limit.cancel()
            if self._watching is not None:
                self._watching.cancel()

    def _watch(self, delay: float) -> None:
        self._watching = asyncio.get_running_loop().call_later(delay, self._on_late)

    def _on_late(self) -> None:
        self._watch(SILENCE_MS / 1000)
        self.trouble = self.trouble or "it does not answer"
        self._owner.on_silent(self.node_id)

    async def close(self) -> None:
        """Ends the stream and the task."""
        self._is_closing = True
        self._restart = False
        self._refusal.error = None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._stream is not None:
            self._stream.cancel()

    def __repr__(self) -> str:
        return f"FetchLink(node {self.node_id}, {self._session!r}, asking={self._asking})"


def says_something(result: PartitionFetchResult) -> bool:
    """True if the result has news that the broker does not tell again: records, where the log diverges, or which
    follower to ask."""
    return bool(result.records) or result.diverging_epoch is not None or result.preferred_read_replica != NO_LEADER
