"""Consumer: the plain face, for one thread at a time.

`poll` takes what was fetched ahead and decodes it in the caller's thread; everything else is asked of the background
loop and waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.cluster.config import ConsumerConfig
from penstock.client.cluster.foreign_words import (
    CONSUMER_METHODS,
    checked_timeout_ms,
    refuse_arguments,
    with_method_hints,
)
from penstock.client.cluster.option_text import with_option_help
from penstock.client.cluster.typed_options import ConsumerOptions
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_core import ITERATION_POLL_MS, ConsumerCore, ConsumerStatistics
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.raw_buffer import RawBuffer, RawRange
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.forgotten import close_when_forgotten
from penstock.position import Position
from penstock.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    NOTHING_SEEN,
    MetadataOffset,
    TimestampAndOffset,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


@with_method_hints(CONSUMER_METHODS)
@with_option_help(ConsumerConfig)
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
        self._background = environment.background()
        self._core.start(self._background.loop)
        self._background.add(self)
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), self._core, self._background)

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread closes the consumer."""
        return self._background.run(self._core.cluster.until_closed(call, *args, **more))

    # -- where to read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these partitions from now on; one that stays keeps its position.

        Partitions that a topic gets later are read once they are assigned too, from their first record on where
        `auto_offset_reset` is 'latest'. With that, reading begins at the ends that the logs have now: what is acked
        after this returns is read. A leader that does not tell its end within 3 s is not waited for, and logged.
        """
        self._run(self._core.fetcher.assign, partitions)

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._core.positions.states)

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        return self._run(self._core.partitions_for, topic)

    def seek(self, partition: TopicPartition, offset: int | Position, leader_epoch: int = NO_EPOCH) -> None:
        """The next record of the partition is the one at `offset`, or the first after it.

        A `Position`, as `position` and `record.position` give it, is taken only in its own topic: TopicRecreatedError
        where the topic was deleted and made anew since, whatever `auto_offset_reset` says. A plain offset is taken in
        whatever topic has the name now.
        """
        self._run(self._core.seek, partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """To the log start of each partition given, or of all assigned."""
        self._run(self._core.seek_to, partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """To behind the last readable record of each partition given, or of all assigned; waits as `assign` does."""
        self._run(self._core.seek_to, partitions, LATEST_TIMESTAMP)

    def position(self, partition: TopicPartition) -> Position:
        """Where the next record that a poll returns is: an offset, with the id of its topic and a leader epoch.

        Keep it as `str(position)`, and `seek` to `Position.parse(text)` to go on there. It compares with offsets.
        """
        known = self._core.known_position(partition)
        if known is not None:
            return known
        return self._run(self._core.position, partition, self._core.config.request_timeout_ms)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._run(self._core.beginning_offsets, partitions)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition."""
        return self._run(self._core.end_offsets, partitions)

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampAndOffset | None]:
        """The first record at or after each time; None where no record is that late."""
        return self._run(self._core.offsets_for_times, times_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls return nothing of these partitions, and nothing more of them is fetched, until `resume`.

        They stay assigned, and keep their positions; what was fetched of them is kept. A seek leaves them paused.
        """
        self._core.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls return records of these partitions again, from their positions on."""
        self._core.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """The assigned partitions that are paused."""
        return self._core.paused()

    def lag(self, partition: TopicPartition) -> int:
        """How many offsets the position is behind the readable end of the log; compaction and transactions leave
        offsets without a record.

        By the leader's last answer to a fetch; before one, or where the partition is paused, the leader is asked.
        """
        return self._run(self._core.lag, partition)

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
        """What there is, in order within each partition; waits at most `timeout_ms` for the first record.

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
        """What keeps assigned partitions from being read, for a person; empty while every broker answers.

        May be called in any thread.
        """
        return self._background.run(self._core.waiting_for())

    def metrics(self) -> dict[str, int]:
        """Numbers for a monitoring system, by the names that Kafka's consumer has: `records-consumed-total`,
        `records-lag-max`, and of each partition `orders-0.records-lag`. Asks nobody; in any thread."""
        return self._core.metrics()

    def statistics(self) -> ConsumerStatistics:
        """Counts since the consumer was made."""
        return self._core.statistics()

    def close(self, timeout: float | None = None) -> None:
        """Stops fetching and closes every connection. Idempotent."""
        if self._core.closed:
            return
        self._background.discard(self)
        if self._background.alive:
            self._background.run(self._core.close(), timeout)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.positions.states)} partitions"
        return f"Consumer({','.join(map(str, self._core.bootstrap))}, {state})"
