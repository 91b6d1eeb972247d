"""The promise that a send returns: where its record will stand in the log.

A RecordFuture is a pair (batch, index) and nothing else, because half a million are made per second; the batch keeps
the promise. It is a tuple so that C code makes it. `result` blocks, `await` works on any event loop, callbacks run
on the client's own thread and must not block. A BulkFuture stands for all batches of one `send_many`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from penstock.client import forks
from penstock.client.options.foreign_words import FUTURE_METHODS, with_method_hints
from penstock.errors import PenstockError, TimedOutError
from penstock.threads import Threads
from penstock.types import RecordMetadata, TopicPartition


class PendingBatch(Protocol):
    """The part of a batch (batch.py) that the futures of its records call."""

    topic_partition: TopicPartition
    threads: Threads
    made_in: int
    """The generation of the process (penstock.client.forks)."""
    record_count: int
    done: bool
    error: PenstockError | None

    @property
    def state(self) -> str:
        """One word for people."""
        ...

    def error_of(self, index: int) -> PenstockError | None: ...

    def metadata(self, index: int) -> RecordMetadata: ...

    def parts(self) -> Iterator[PendingBatch]:
        """Batches of the log: itself, or what it was split into."""
        ...

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Calls back once when done; at once when it is."""
        ...


class AckedRange(NamedTuple):
    """Records of one batch, by their offsets: first and last inclusive."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    timestamp_ms: int

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1


@with_method_hints(FUTURE_METHODS)
class RecordFuture(tuple[PendingBatch, int]):
    """The promise of one record's RecordMetadata."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Waits at most `timeout` seconds; raises the record's error, or TimedOutError while nothing is known."""
        batch, index = self
        if not batch.done:
            wait_done((batch,), timeout)
        error = batch.error_of(index)
        if error is not None:
            raise error.with_traceback(None)
        return batch.metadata(index)

    def exception(self, timeout: float | None = None) -> PenstockError | None:
        """The error of the record, None when it was acked; waits like `result`."""
        batch, index = self
        if not batch.done:
            wait_done((batch,), timeout)
        return batch.error_of(index)

    def done(self) -> bool:
        """True if the record was acked or has failed."""
        return self[0].done

    def add_done_callback(self, callback: Callable[[RecordFuture], Any]) -> None:
        """Calls `callback(self)` when done: at once when it is already, else on the client's thread. An error that it
        raises is logged."""
        batch = self[0]
        if not batch.done:
            forks.refuse_promise(batch.made_in)
        batch.add_callback(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch = self[0]
        if not batch.done:
            yield from when_done(batch).__await__()
        return self.result(0)

    def __repr__(self) -> str:
        batch, index = self
        return f"RecordFuture({batch.topic_partition}, {batch.state}, index={index})"


@with_method_hints(FUTURE_METHODS)
class BulkFuture:
    """The promise of everything that one send_many took."""

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[tuple[PendingBatch, int, int]]) -> None:
        self._batches = batches  # (batch, first index, count)

    def result(self, timeout: float | None = None) -> int:
        """The number of records acked; raises the first error when any failed."""
        wait_done((batch for batch, _, _ in self._batches), timeout)
        for batch, _, _ in self._batches:
            if batch.error is not None:
                raise batch.error.with_traceback(None)
        return sum(count for _, _, count in self._batches)

    def ranges(self, timeout: float | None = None) -> list[AckedRange]:
        """The places of the records in the log; in each partition they keep the order in which they were given.

        With keys they are spread over partitions, and the ranges do not say which record is where.
        """
        self.result(timeout)
        found = []
        for part in (part for batch, _, _ in self._batches for part in batch.parts()):
            head, tail = part.metadata(0), part.metadata(part.record_count - 1)
            found.append(AckedRange(head.topic, head.partition, head.offset, tail.offset, head.timestamp_ms))
        return found

    def exception(self, timeout: float | None = None) -> PenstockError | None:
        """The first error, or None."""
        wait_done((batch for batch, _, _ in self._batches), timeout)
        return next((batch.error for batch, _, _ in self._batches if batch.error is not None), None)

    def done(self) -> bool:
        """True if every record was acked or has failed."""
        return all(batch.done for batch, _, _ in self._batches)

    def add_done_callback(self, callback: Callable[[BulkFuture], object]) -> None:
        """Calls back once, when every record was acked or has failed: on the client's thread, or at once. An error
        that it raises is logged."""
        for batch, _, _ in self._batches:
            if not batch.done:
                forks.refuse_promise(batch.made_in)
        once = [callback]

        def batch_done() -> None:
            if self.done():
                with contextlib.suppress(IndexError):  # two batches may be done at the same moment
                    once.pop()(self)

        for batch, _, _ in self._batches:
            batch.add_callback(batch_done)
        if not self._batches:
            batch_done()

    @property
    def count(self) -> int:
        """How many records were taken."""
        return sum(count for _, _, count in self._batches)

    def __await__(self) -> Generator[Any, None, int]:
        for batch, _, _ in self._batches:
            if not batch.done:
                yield from when_done(batch).__await__()
        return self.result(0)

    def __repr__(self) -> str:
        return f"BulkFuture(records={self.count}, batches={len(self._batches)}, done={self.done()})"


def wait_done(batches: Iterable[PendingBatch], timeout: float | None) -> None:
    """Blocks this thread until every batch is acked or has failed; TimedOutError after `timeout` seconds."""
    left = [batch for batch in batches if not batch.done]
    if not left:
        return
    forks.refuse_promise(left[0].made_in)
    event = left[0].threads.event()
    waiting = deque(left)

    def batch_done() -> None:
        waiting.pop()
        if not waiting:
            event.set()

    for batch in left:
        batch.add_callback(batch_done)
    if not event.wait(None if timeout is None else max(timeout, 0)):
        late = next((batch for batch in left if not batch.done), left[0])
        raise TimedOutError(f"{late.topic_partition}: not acked within {timeout} s; the record may still be written")


async def when_done(batch: PendingBatch) -> None:
    """Waits on this event loop until the batch is acked or has failed."""
    forks.refuse_promise(batch.made_in)
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    batch.add_callback(lambda: loop.call_soon_threadsafe(wake))
    await waiter
