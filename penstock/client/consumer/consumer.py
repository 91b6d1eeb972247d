"""Consumer: the plain face, for one thread at a time.

`poll` takes what was fetched ahead and decodes it in the caller's thread; everything else is asked of the background
loop and waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Never, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_calls import ConsumerCalls
from penstock.client.consumer.consumer_core import ITERATION_POLL_MS, ConsumerCore
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.groups.steps import Callback, RebalanceListener
from penstock.client.consumer.groups.turns import Turns
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
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ConsumerOptions
from penstock.position import Position
from penstock.types import NO_EPOCH, NOTHING_SEEN, MetadataOffset, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


@face(ConsumerConfig, CONSUMER_METHODS)
class Consumer:
    """Reads topics, as a member of a group (`subscribe`) or alone (`assign`)."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        environment = given_or_system(environment)
        self._clock = environment.clock
        self._ready = environment.threads.event()
        self._core = ConsumerCore(bootstrap, options, environment, self._ready.set)
        self._calls = ConsumerCalls(self._core)
        self._turns = Turns(self._core)
        self._background = environment.background()
        self._core.start(self._background.loop)
        self._background.add(self, Consumer._close_at_exit)
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
    seek_to_committed = blocking(ConsumerCalls.seek_to_committed)
    lag = blocking(ConsumerCalls.lag)
    beginning_offsets = blocking(ConsumerCalls.beginning_offsets)
    end_offsets = blocking(ConsumerCalls.end_offsets)
    offsets_for_times = blocking(ConsumerCalls.offsets_for_times)
    commit = blocking(ConsumerCalls.commit)
    committed = blocking(ConsumerCalls.committed)
    commit_async = at_once(ConsumerCalls.commit_async)
    group_positions = at_once(ConsumerCalls.group_positions)
    subscription = at_once(ConsumerCalls.subscription)
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

    # -- groups --------------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Reads these topics, or all whose names match the pattern (RE2's syntax), together with the other members of
        the group. A topic that does not exist yet is read once it does. Replaces the subscription before it.

        Each poll may change what is assigned, and calls back with a list of partitions: `on_assigned` when they are
        read from then on, `on_revoked` before they are given up (commit there), `on_lost` (without one: `on_revoked`)
        when the group has already gone on without this consumer. The poll raises what a callback raises.
        """
        listener = RebalanceListener(on_assigned, on_revoked, on_lost)
        with self._turns.listening(listener, takes_coroutines=False):
            self._run(self._calls.subscribe, topics, pattern)

    def unsubscribe(self) -> None:
        """Gives up what is assigned, calling `on_revoked`, and leaves the group."""
        self._turns.must_not_be_in_callback("unsubscribe")
        self._core.check_open()
        self._turns.leave(self._run, is_last_done=True)

    # -- reading -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Consumer:
        """`for record in consumer`: every record as it comes, without end; `poll` gives many at once, which is faster.

        After a `break`, the position is that of the record after the last one given.
        """
        return self

    def __next__(self) -> ConsumerRecord:
        self._core.check_iteration()
        found = self._core.take_records(1) if self._core.group is None or self._turns.may_take() else []
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
        """The next records as `poll` gives them, in a table: key, value, topic, partition, offset, timestamp,
        timestampType (and headers)."""
        refuse_arguments("poll_arrow", others)
        from penstock.client.consumer.arrow_table import ArrowOptions, take_table

        options = ArrowOptions(max_records, include_headers)
        return self._wait(timeout_ms, lambda: take_table(self._core, options))

    def _wait(self, timeout_ms: int, take: Callable[[], T]) -> T:
        """The first non-empty answer of `take`, or the last one when time is up."""
        deadline_ms = self._clock.now_ms() + checked_timeout_ms(timeout_ms)
        self._core.check_poll()
        try:
            self._turns.begin()
            while True:
                self._ready.clear()
                self._core.check_open()  # AFTER clear: a close that comes later sets it again
                if self._turns.take(self._run):
                    self._core.check_poll()
                found = take()
                if len(found):  # type: ignore[arg-type]
                    return found
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0 or not self._ready.wait(left_ms / 1000):
                    self._core.reader.raise_waiting()
                    return found
        finally:
            self._turns.end()

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
        """Stops reading, and closes every connection, within `timeout` seconds. Idempotent.

        A member of a group commits, if it does so by itself, calls `on_revoked`, and leaves.
        """
        self._close(timeout, is_last_done=True)

    def _close(self, timeout: float | None, *, is_last_done: bool) -> None:
        if self._core.closed:
            return
        began_ms = self._clock.now_ms()
        self._background.discard(self)
        if not self._background.alive:
            return
        self._core.begin_close()
        try:
            self._turns.leave(partial(self._run_within, timeout), is_last_done=is_last_done)
        finally:
            left = None if timeout is None else max(timeout - (self._clock.now_ms() - began_ms) / 1000, 0.1)
            self._background.run(self._core.close(), left)

    def _run_within(
        self, timeout: float | None, call: Callable[..., Coroutine[Any, Any, T]], *args: Any, **more: Any
    ) -> T:
        return self._background.run(call(*args, **more), timeout)

    def _close_at_exit(self, timeout: float) -> None:
        """The program ends. Nobody has said that the last poll's records are done, so they are not committed."""
        self._turns.listener = RebalanceListener()
        self._close(timeout, is_last_done=False)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *failure: object) -> None:
        """Closes as `close` does. After an exception the last poll's records are not committed, because they may not be
        done."""
        self._close(None, is_last_done=failure[0] is None)

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.positions.states)} partitions"
        return f"Consumer({','.join(map(str, self._core.bootstrap))}, {state})"
