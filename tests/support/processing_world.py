"""A log, a group and transactions in memory, with a consumer and a producer for a processor: plain ones, and async.

The producer's phases are those of the real `TransactionCore`, and the consumer's positions are real `PartitionState`s.
Each call has a moment before and one after its effect, at which `World.interrupt_at` may end it, as Ctrl-C does. Of an
interrupted commit the effect goes on, as that of a real one. Time moves in polls alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

from penstock import ConsumerRecord, Output, Position, TopicPartition
from penstock.client.consumer.fetching.partition_state import GenerationOffset, PartitionState
from penstock.client.producer.transactions.transaction_core import Phase, TransactionCore
from penstock.clock import ManualClock
from penstock.errors import PenstockError, ProducerFencedError, UnknownTopicOrPartitionError
from penstock.messages.metadata import TopicInfo
from penstock.messages.transactions.producers import EndTxnResponse
from penstock.types import NO_EPOCH, ProducerIdAndEpoch

WALL_MS = 1_700_000_000_000
ID = "a" * 22
CALLS_MAX = 50_000


class World:
    """Everything that outlives a processor. `logs`: the values of each partition of "in"; None is the end of a
    transaction, which takes an offset and is no record."""

    def __init__(self, *logs: list[bytes | None]) -> None:
        self.logs = {TopicPartition("in", number): values for number, values in enumerate(logs)}
        self.committed: dict[TopicPartition, int] = {}
        self.written: list[Output] = []
        self.clock = ManualClock(wall_ms=WALL_MS)
        self.calls: list[str] = []
        self.errors: dict[str, deque[BaseException]] = {}
        self.on_empty: Callable[[], object] = lambda: None
        self.moments, self.interrupt_at = 0, -1
        self.epochs: dict[str, int] = {}
        self.open: dict[str, tuple[list[Output], dict[TopicPartition, int]]] = {}
        self.topics = {name: TopicInfo(name) for name in ("in", "out", "dead")}
        self.refusal: Callable[[Output], PenstockError | None] = lambda output: None
        """The error with which a broker refuses a record, once the transaction is to be committed."""

    def moment(self, error: BaseException | None = None) -> None:
        """One at which a run may be interrupted."""
        self.moments += 1
        if self.moments == self.interrupt_at:
            raise error or KeyboardInterrupt

    def fail(self, call: str, *errors: BaseException) -> None:
        """The next calls of that name raise these, each once, before their effect."""
        self.errors[call] = deque(errors)

    def begin(self, call: str) -> None:
        self.calls.append(call)
        self.moment()
        if self.errors.get(call):
            raise self.errors[call].popleft()

    @property
    def values(self) -> list[bytes | None]:
        return [one.value for one in self.written]

    def once(self) -> None:
        """Each record of the logs was made something of, once."""
        inputs = Counter(value for log in self.logs.values() for value in log if value is not None)
        assert Counter(self.values) == inputs
        ends = {place: max(at + 1 for at, value in enumerate(log) if value is not None)
                for place, log in self.logs.items() if any(value is not None for value in log)}  # fmt: skip
        assert all(self.committed[place] >= end for place, end in ends.items())

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        self.begin("partitions_for")
        if topic not in self.topics:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} does not exist")
        return [TopicPartition(topic, 0)]

    @property
    def cluster(self) -> SimpleNamespace:
        """The part of a client that knows topics."""
        return SimpleNamespace(cache=SimpleNamespace(topic=self.topics.get))

    # -- the coordinator -----------------------------------------------------------------------------------------------

    def initialize(self, name: str) -> int:
        """A new producer has the id: what an older one has open is aborted."""
        self.open.pop(name, None)
        self.epochs[name] = self.epochs.get(name, -1) + 1
        return self.epochs[name]

    def end(self, name: str, epoch: int, *, is_committed: bool) -> None:
        self.check(name, epoch)
        outputs, offsets = self.open.pop(name, ([], {}))
        if is_committed:
            self.written += outputs
            self.committed |= offsets

    def check(self, name: str, epoch: int) -> None:
        if self.epochs[name] != epoch:
            raise ProducerFencedError("another producer has the id")


class WorldConsumer:
    """The only member of a group. `records_max` is what a poll gives at most."""

    def __init__(self, world: World, records_max: int = 3) -> None:
        self.world, self.records_max, self.topics = world, records_max, ["in"]
        self._generations = count(1)
        self.states: dict[TopicPartition, PartitionState] = {}
        config = SimpleNamespace(max_poll_interval_ms=300_000, group_id="g")
        positions = SimpleNamespace(states=self.states)
        self._core = SimpleNamespace(config=config, positions=positions, cluster=world.cluster)
        self.partitions_for = world.partitions_for
        for place in world.logs:
            self.states[place] = PartitionState(place, next(self._generations))
            self.states[place].topic_id = ID
            self._place(place, world.committed.get(place, 0))

    def _place(self, place: TopicPartition, offset: int) -> None:
        self.states[place].begin(next(self._generations), offset)

    def subscription(self) -> list[str]:
        return self.topics

    def assignment(self) -> list[TopicPartition]:
        return list(self.states) if self.topics else []

    def poll(self, timeout_ms: int, records_max: int | None = None) -> list[ConsumerRecord]:
        self.world.begin("poll")
        assert len(self.world.calls) < CALLS_MAX, "it does not end"
        limit = self.records_max if records_max is None else records_max
        found: list[ConsumerRecord] = []
        for place, state in self.states.items():
            log = self.world.logs[place]
            while not state.paused and state.position < len(log) and len(found) < limit:
                offset = state.position
                if (value := log[offset]) is not None:
                    stamp = self.world.clock.wall_ms() if value.startswith(b"new") else WALL_MS
                    found.append(ConsumerRecord("in", place.partition, offset, stamp, 0, b"k", value, ()))
                state.read = GenerationOffset(state.generation, offset + 1)
        if not found:
            self.world.clock.advance(max(timeout_ms, 1))
            if not any(state.paused for state in self.states.values()):
                self.world.on_empty()
        self.world.moment()
        return found

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.world.begin("seek")
        self._place(place, offset)
        self.world.moment()

    def seek_to_committed(self, *places: TopicPartition) -> None:
        self.world.begin("seek_to_committed")
        assert not self.world.open, "the offsets of an open transaction are waited for, for ever"
        for place in places:
            self._place(place, self.world.committed.get(place, 0))
            self.world.moment()

    def commit(self) -> None:
        self.world.begin("commit_positions")
        self.world.committed |= {place: state.position for place, state in self.states.items()}
        self.world.moment()

    def pause(self, places: list[TopicPartition]) -> None:
        self.world.moment()
        for place in places:
            self.states[place].paused = True
        self.world.moment()

    def resume(self, places: list[TopicPartition]) -> None:
        self.world.moment()
        for place in places:
            self.states[place].paused = False
        self.world.moment()


class WorldProducer:
    """A transactional producer; `timeout_ms` is its transaction's."""

    def __init__(self, world: World, name: str = "copier", timeout_ms: int = 60_000) -> None:
        self.world, self.name = world, name
        self.core = TransactionCore(name)
        self._epoch = NO_EPOCH
        config = SimpleNamespace(transaction_timeout_ms=timeout_ms, transactional_id=name, max_request_size=1_048_576)
        self._core = SimpleNamespace(config=config, cluster=world.cluster)
        self.partitions_for = world.partitions_for

    def begin_transaction(self) -> None:
        self.world.begin("begin")
        if self._epoch == NO_EPOCH:
            self._epoch = self.world.initialize(self.name)
            self.core.on_initialized(ProducerIdAndEpoch(1, self._epoch))
        self.core.begin()
        self.world.moment()

    def _opened(self) -> tuple[list[Output], dict[TopicPartition, int]]:
        self.core.must_take_records()
        self.core.on_sent()
        try:
            self.world.check(self.name, self._epoch)
        except ProducerFencedError as error:
            self.core.on_failed(error)
            self.core.must_take_records()
        return self.world.open.setdefault(self.name, ([], {}))

    def send(self, *output: Any) -> None:
        self.world.begin("send")
        self._opened()[0].append(Output(*output))
        self.world.moment()

    def send_offsets(self, consumer: Any, positions: Mapping[TopicPartition, Position] | None = None) -> None:
        self.world.begin("send_offsets")
        real = getattr(consumer, "real", consumer)
        given = {place: state.position for place, state in real.states.items()}
        if positions is not None:
            given = {place: position.offset for place, position in positions.items()}
        self._opened()[1].update(given)
        self.world.moment()

    def commit_transaction(self) -> None:
        self.world.begin("commit")
        for output in self.world.open.get(self.name, ([], {}))[0]:
            if (error := self.world.refusal(output)) is not None:
                self.core.on_failed(error)
        if self.core.begin_commit():
            self._end()

    def abort_transaction(self) -> None:
        self.world.begin("abort")
        self.core.begin_abort()
        self._end()

    def _end(self) -> None:
        """The end goes on where the caller is interrupted."""
        interruption: BaseException | None = None
        try:
            self.world.moment()
        except KeyboardInterrupt as error:
            interruption = error
        answer: EndTxnResponse | None = None
        if self.core.on_flushed():
            try:
                self.world.end(self.name, self._epoch, is_committed=self.core.phase is Phase.COMMITTING)
            except ProducerFencedError as error:
                self.core.on_not_ended(error)
            answer = EndTxnResponse(1, self._epoch)
        self.core.on_ended(answer, is_awaited=interruption is None)
        if interruption is not None:
            raise interruption
        self.world.moment()


class AsyncFace:
    """The calls of a plain client as those of an async one; what waits for nothing stays as it is."""

    AT_ONCE = ("_core", "subscription", "assignment", "pause", "resume", "states", "topics", "world", "core")

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name in self.AT_ONCE:
            return found

        async def awaited(*args: Any) -> Any:
            return found(*args)

        return awaited
