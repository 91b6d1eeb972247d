"""One fetch stream to one broker, one request at a time: ask, take the answer, ask again while there is room.

The next request is written before the answer is handed on, so that the broker works while the user decodes. When the
wanted partitions change under a waiting request (a seek, a new assignment), the stream is given up for a new one: a
seek must not wait for `fetch_max_wait_ms`. Not here: what to want (positions.py) and what an answer means
(fetcher.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.client.channel import Connection, FetchStream
from penstock.client.fetch_session_view import FetchSession
from penstock.client.messages import FetchAnswer, FetchCall, FetchPart
from penstock.client.retry import Backoff
from penstock.errors import ApiError, NetworkError, RequestTimedOutError, UnknownServerError
from penstock.types import TopicPartition

logger = logging.getLogger("penstock.client")

Wanted = Mapping[TopicPartition, FetchPart]


class LinkOwner(Protocol):
    """What a link asks of the fetcher."""

    backoff: Backoff

    def wanted(self, node_id: int) -> Wanted:
        """What to fetch from this broker now; empty while the buffer is full."""
        ...

    def call(self, session_delta: tuple[tuple[FetchPart, ...], tuple[TopicPartition, ...]]) -> FetchCall: ...

    def on_answer(self, answer: FetchAnswer) -> Callable[[], None]:
        """Moves the positions on; what it returns hands the records over, after the next request is out."""
        ...

    def on_broken(self, node_id: int, error: ApiError) -> None: ...


class FetchLink:
    """A task that keeps one broker's fetches going."""

    def __init__(self, node_id: int, connection: Connection, owner: LinkOwner, time_out_ms: int) -> None:
        self.node_id = node_id
        self.connection = connection
        self._owner = owner
        self._time_out_ms = time_out_ms
        self._session = FetchSession()
        self._stream: FetchStream | None = None
        self._asking = False
        self._restart = False
        self._touched = asyncio.Event()
        self._failures = 0
        self._fetching: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run())

    def touch(self) -> None:
        """The wanted partitions, or the room for them, may have changed."""
        self._touched.set()
        if self._asking and self._stream is not None and not self._restart:
            wanted = self._owner.wanted(self.node_id)
            if wanted and not self._session.knows(wanted):
                self._restart = True
                self._fetching.cancel()  # not the stream: a write that waits for a connection would not notice

    async def _run(self) -> None:
        while True:
            self._fetching = asyncio.ensure_future(self._fetch_for_ever())
            try:
                await self._fetching
            except asyncio.CancelledError:
                self._fetching.cancel()
                self._drop_stream()
                if not self._restart:
                    raise
                self._restart = False
            except Exception as error:
                self._drop_stream()
                self._restart = False
                self._failures += 1
                if not isinstance(error, ApiError):  # a bug of ours: told, and not the end of fetching
                    logger.exception("fetching from node %d", self.node_id)
                    error = UnknownServerError(repr(error))
                self._owner.on_broken(self.node_id, error)
                await asyncio.sleep(max(self._owner.backoff.wait_ms(self._failures), 1) / 1000)

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._stream, self._session = None, FetchSession()

    async def _fetch_for_ever(self) -> None:
        hand_over: Callable[[], None] | None = None
        while True:
            self._touched.clear()
            wanted = self._owner.wanted(self.node_id)
            if not wanted:
                if hand_over is not None:
                    hand_over()
                    hand_over = None
                    continue  # handing over may have made it wake us
                await self._touched.wait()
                continue
            if self._stream is None:
                self._stream = self.connection.open_fetch()
            try:
                self._asking = True
                await self._stream.write(self._owner.call(self._session.advance(wanted)))
                if hand_over is not None:
                    hand_over()
                    hand_over = None
                answer = await self._read(self._stream)
            finally:
                self._asking = False
                if hand_over is not None:
                    hand_over()
                    hand_over = None
            if answer.error is not None:
                raise answer.error
            self._failures = 0
            self._session.forget(TopicPartition(r.topic, r.partition) for r in answer.results if r.error is not None)
            hand_over = self._owner.on_answer(answer)

    async def _read(self, stream: FetchStream) -> FetchAnswer:
        """The answer; a broker that is silent for too long is treated as gone."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._time_out_ms / 1000, stream.cancel)
        try:
            return await stream.read()
        except NetworkError:
            if loop.time() >= timer.when():
                raise RequestTimedOutError(
                    f"{self.connection.endpoint}: no answer to a fetch within {self._time_out_ms} ms"
                ) from None
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Ends the stream and the task."""
        self._restart = False
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._stream is not None:
            self._stream.cancel()

    def __repr__(self) -> str:
        return f"FetchLink(node {self.node_id}, {self._session!r}, asking={self._asking})"
