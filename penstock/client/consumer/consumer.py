"""Consumer: the plain face, for one thread at a time.

`poll` takes what was fetched ahead and decodes it in the caller's thread; everything else is asked of the background
loop and waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Never, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_calls import ConsumerCalls
from penstock.client.consumer.consumer_core import ITERATION_POLL_MS, ConsumerCore
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.raw.raw_buffer import RawBuffer, RawRange
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.faces import at_once, blocking, documented_by, face
from penstock.client.forgotten import close_when_forgotten
from penstock.client.options.config import ConsumerConfig
from penstock.client.options.foreign_words import (
    CONSUMER_METHODS,
    checked_timeout_ms,
    refuse_arguments,
)
from penstock.client.options.typed_options import ConsumerOptions
from penstock.position import Position
from penstock.types import NO_EPOCH, NOTHING_SEEN, MetadataOffset, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


@face(ConsumerConfig, CONSUMER_METHODS)
class Consumer:
    """Reads assigned partitions."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "127.0.0.1:9192",
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        environment = given_or_system(environment)
        self._clock = environment.clock
        self._ready = environment.threads.event()
        self._core = ConsumerCore(bootstrap, options, environment, self._ready.set)
        self._calls = ConsumerCalls(self._core)
        self._background = environment.background()
        self._core.start(self._background.loop)
        self._background.add(self)
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), self._core, self._background)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread closes the consumer."""
        return self._background.run(self._core.cluster.waiting_calls.until_closed(call, *args, **more))

    assign = blocking(ConsumerCalls.assign)
    partitions_for = blocking(ConsumerCalls.partitions_for)
    seek = blocking(ConsumerCalls.seek)
    seek_to_beginning = blocking(ConsumerCalls.seek_to_beginning)
    seek_to_end = blocking(ConsumerCalls.seek_to_end)
    lag = blocking(ConsumerCalls.lag)
    beginning_offsets = blocking(ConsumerCalls.beginning_offsets)
    end_offsets = blocking(ConsumerCalls.end_offsets)
    offsets_for_times = blocking(ConsumerCalls.offsets_for_times)
    assignment = at_once(ConsumerCalls.assignment)
    pause = at_once(ConsumerCalls.pause)
    resume = at_once(ConsumerCalls.resume)
    paused = at_once(ConsumerCalls.paused)
    metrics = at_once(ConsumerCalls.metrics)
    statistics = at_once(ConsumerCalls.statistics)

    @documented_by(ConsumerCalls.position)
    def position(self, partition: TopicPartition) -> Position:
        known = self._calls.known_position(partition)
        return self._run(self._calls.position, partition) if known is None else known

    # -- reading -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Consumer:
        """`for record in consumer`: every record as it comes, without end; `poll` gives many at once, which is faster.

        After a `break`, the position is that of the record after the last one given.
        """
        return self

    def __next__(self) -> ConsumerRecord:
        self._core.check_iteration()
        found = self._core.take_records(1)
        while not found:
            found = self.poll(ITERATION_POLL_MS, 1)
        return found[0]

    def poll(self, timeout_ms: int = 0, max_records: int | None = None, **others: Never) -> list[ConsumerRecord]:
        """The next records, in order within each partition; waits at most `timeout_ms` for the first record.

        The error of a partition is raised when there is nothing to return, and again by every poll that would end
        empty: the position stays at it until a seek. The other partitions go on. The error of a whole fetch, which
        asking again does not mend, is raised each time that the broker refuses; it is asked again all the same.
        """
        refuse_arguments("poll", others)
        return self._wait(timeout_ms, lambda: self._core.take_records(max_records))

    def poll_arrow(
        self, timeout_ms: int = 0, max_records: int | None = None, *, include_headers: bool = False, **others: Never
    ) -> pa.Table:
        """The same as a table: key, value, topic, partition, offset, timestamp, timestampType (and headers)."""
        refuse_arguments("poll_arrow", others)
        from penstock.client.consumer.arrow_table import ArrowOptions, take_table

        options = ArrowOptions(max_records, include_headers)
        return self._wait(timeout_ms, lambda: take_table(self._core, options))

    def _wait(self, timeout_ms: int, take: Callable[[], T]) -> T:
        """The first non-empty answer of `take`, or the last one when time is up."""
        deadline_ms = self._clock.now_ms() + checked_timeout_ms(timeout_ms)
        self._core.check_poll()
        while True:
            self._ready.clear()
            self._core.check_open()  # AFTER clear: a close that comes later sets it again
            found = take()
            if len(found):  # type: ignore[arg-type]
                return found
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0 or not self._ready.wait(left_ms / 1000):
                self._core.reader.raise_standing()
                return found

    def fetch_raw(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        to_offset: int,
        topic_id: str = "",
        leader_epoch: int = NO_EPOCH,
        seen: MetadataOffset = NOTHING_SEEN,
    ) -> Iterator[RawBuffer]:
        """Raw record buffers that hold the records `from_offset <= offset < to_offset`; needs no assignment.

        Decode each from its own `from_offset`. With `topic_id`, only of the topic that has it: TopicRecreatedError
        where the name is another's by now. With the `leader_epoch` in which `to_offset` was seen, and the metadata that
        was `seen` before, no broker that has heard less is believed, and a record that replaced another one below
        `to_offset` is a LogTruncationError.
        """
        span = RawRange(TopicPartition(topic, partition), from_offset, to_offset, topic_id, leader_epoch, seen)
        fetch = self._core.raw_fetch(span)
        try:
            while (buffer := self._run(fetch.next_buffer)) is not None:
                yield buffer
        finally:  # after Ctrl-C too, when the wait for a buffer is being cancelled
            if self._background.alive:
                self._background.run(fetch.close())

    # -- end -----------------------------------------------------------------------------------------------------------

    def waiting_for(self) -> tuple[Waiting, ...]:
        """The reasons why assigned partitions are not read, for a person; empty while every broker answers.

        May be called in any thread.
        """
        return self._background.run(self._calls.waiting_for())

    def close(self, timeout: float | None = None) -> None:
        """Stops fetching and closes every connection, within `timeout` seconds. Idempotent."""
        if self._core.closed:
            return
        self._background.discard(self)
        if self._background.alive:
            self._background.run(self._core.close(), timeout)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.positions.states)} partitions"
        return f"Consumer({','.join(map(str, self._core.bootstrap))}, {state})"
