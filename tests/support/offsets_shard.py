"""The committed offsets of a shard without its driver: topics, groups and time are the test's.

Every record goes through its encoding, so the state is what the log says; the log is kept, for loading it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from broker.coordination.held_memory import ShardMemory
from broker.coordination.record_log import TxnProducer
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, TopicFacts, Turn
from broker.coordination.watched_time import WatchedTimeKey, WatchedTimeValue
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import group_memory
from broker.groups.offsets.committed_offsets import CommittedOffsets
from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from penstock.errors import ApiError, InvalidProducerEpochError, UnstableOffsetCommitError
from penstock.messages.groups.offsets import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from penstock.messages.transactions.producers import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.record.markers import Marker
from penstock.types import TopicPartition

CLIENT = Client("client", "/127.0.0.1")
DAY_MS = 24 * 3_600_000
T0_MS = 1_700_000_000_000


class SomeTopics:
    """The topics that there are; one that is made again has another id."""

    def __init__(self, **partitions: int) -> None:
        self.facts: dict[str, TopicFacts] = {}
        self._made = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, partitions: int) -> None:
        self._made += 1
        self.facts[name] = TopicFacts(f"{self._made:021d}A", name, partitions, ())

    def id(self, name: str) -> str:
        return self.facts[name].topic_id

    def by_name(self, name: str) -> TopicFacts | None:
        return self.facts.get(name)

    def by_id(self, topic_id: str) -> TopicFacts | None:
        return next((topic for topic in self.facts.values() if topic.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return sorted(self.facts)

    def may_begin_consumer_groups(self) -> bool:
        return True


@dataclass
class SomeGroup:
    """A group with members, as its protocol's core would tell of it."""

    refuses_commit: ApiError | None = None
    refuses_fetch: ApiError | None = None
    refuses_delete: ApiError | None = None
    subscribed: set[str] = field(default_factory=set)
    expiry: OffsetExpiry | None = None
    is_empty: bool = False


class SomeGroups:
    """`OffsetGroups` of a test."""

    def __init__(self) -> None:
        self.groups: dict[str, SomeGroup] = {}

    def knows(self, group_id: str) -> bool:
        return group_id in self.groups

    def group_ids(self) -> Iterable[str]:
        return self.groups.keys()

    def check_commit(self, turn: Turn, request: OffsetCommitRequest) -> None:
        _raised(self.groups[request.group_id].refuses_commit)

    def check_transactional_commit(self, turn: Turn, request: TxnOffsetCommitRequest) -> None:
        _raised(self.groups[request.group_id].refuses_commit)

    def check_fetch(self, turn: Turn, request: OffsetFetchGroup) -> None:
        _raised(self.groups[request.group_id].refuses_fetch)

    def check_offset_delete(self, group_id: str) -> None:
        _raised(self.groups[group_id].refuses_delete)

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        return topic in self.groups[group_id].subscribed

    def offset_expiry(self, group_id: str) -> OffsetExpiry | None:
        return self.groups[group_id].expiry

    def delete_if_empty(self, turn: Turn, group_id: str) -> None:
        if self.groups[group_id].is_empty:
            del self.groups[group_id]


def _raised(error: ApiError | None) -> None:
    if error is not None:
        raise error


Logged = tuple[bytes, bytes | None, TxnProducer | None] | Marker


class OffsetsShard:
    """`Replays` of a test, and its driver."""

    def __init__(self, topics: SomeTopics, **config: Any) -> None:
        self.topics = topics
        self.groups = SomeGroups()
        self.config = GroupConfig(**config)
        self.now_ms = 5_000
        self.log: list[Logged] = []
        self.epochs: dict[int, int] = {}
        """The last one of each producer that wrote."""
        self.portions = 0
        self._mark: tuple[WatchedTimeKey, WatchedTimeValue] | None = None
        """The last record of watched time that was due, which the shard's log has in front of a turn's records."""
        self._new()

    def _new(self) -> None:
        self.timers: Timers[Turn] = Timers()
        self.offsets = CommittedOffsets(self.config, self.groups, self.timers, ShardMemory(group_memory(1 << 40)))

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        record = encode_group_record(key, value)
        self.log.append((*record, producer))
        self._replay_bytes(*self.log[-1])

    def replay_marker(self, marker: Marker) -> None:
        self.log.append(marker)
        self.offsets.state.replay_end(marker.producer_id, marker.is_committed)

    def _replay_bytes(self, key: bytes, value: bytes | None, producer: TxnProducer | None) -> None:
        decoded = decode_group_record(key, value)
        assert decoded is not None
        if producer is None:
            self.offsets.state.replays[type(decoded[0])](*decoded)
        else:
            self.offsets.state.replay_pending(producer.producer_id, *decoded)

    def reload(self, compacted: bool = False) -> None:
        """Another broker leads: it has the log alone."""
        if compacted:
            self.log = compacted_log(self.log)
        self._new()
        if self._mark is not None:
            self.offsets.watched.replay(*self._mark)
        for one in self.log:
            if isinstance(one, Marker):
                self.offsets.state.replay_end(one.producer_id, one.is_committed)
            else:
                self._replay_bytes(*one)
        self.offsets.loaded(self.turn())
        self._keep_mark(is_written=False)

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def wall_ms(self) -> int:
        return T0_MS + self.now_ms

    def turn(self) -> Turn:
        self.offsets.watched.look(self.now_ms, self.wall_ms)
        return Turn(self.now_ms, self.wall_ms, self.topics, self, lambda: "id", must_take=self._must_take)

    def _must_take(self, producer: TxnProducer) -> None:
        must_take(producer, self.epochs)

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (due_ms := self.timers.next_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for action in self.timers.take_due(self.now_ms):
                before = len(self.log)
                action(self.turn())
                self._keep_mark(is_written=len(self.log) > before)
                self.portions += 1
        self.now_ms = end_ms

    def _keep_mark(self, *, is_written: bool) -> None:
        self._mark = self.offsets.watched.mark(is_written=is_written) or self._mark

    def topics_changed(self, *names: str) -> None:
        self.offsets.image_changed(self.turn(), names)
        self.pass_time(1_000)

    # -- requests ------------------------------------------------------------------------------------------------------

    def send(self, request: Any) -> Any:
        """The answer. A request that is refused as a whole raises its error, and has written nothing."""
        turn, before = self.turn(), len(self.log)
        try:
            self.offsets.handlers[type(request)](turn, "ticket", request, CLIENT)
        except ApiError:
            assert len(self.log) == before
            assert turn.answers == []
            raise
        self._keep_mark(is_written=len(self.log) > before)
        ((ticket, answer),) = turn.answers
        assert ticket == "ticket"
        return answer

    def commit(self, group_id: str, offsets: dict[str, int], **request: Any) -> list[type[ApiError] | None]:
        """By `topic:partition`; the error of each."""
        names = ("leader_epoch", "metadata", "topic_id")
        one = {name: request.pop(name) for name in names if name in request}
        partitions = tuple(OffsetCommitPartition(place(text), offset, **one) for text, offset in offsets.items())
        answer = self.send(OffsetCommitRequest(group_id, partitions, **request))
        assert isinstance(answer, OffsetCommitResponse)
        assert [result.partition for result in answer.partitions] == [one.partition for one in partitions]
        return errors(answer)

    def pend(
        self, group_id: str, producer_id: int, offsets: dict[str, int], epoch: int = 0, **request: Any
    ) -> list[type[ApiError] | None]:
        """Commits of a transaction; the error of each."""
        names = ("leader_epoch", "metadata", "topic_id")
        one = {name: request.pop(name) for name in names if name in request}
        partitions = tuple(OffsetCommitPartition(place(text), offset, **one) for text, offset in offsets.items())
        answer = self.send(TxnOffsetCommitRequest("tx", group_id, producer_id, epoch, partitions, **request))
        assert isinstance(answer, TxnOffsetCommitResponse)
        assert [result.partition for result in answer.partitions] == [one.partition for one in partitions]
        self.epochs[producer_id] = epoch
        return errors(answer)

    def end(self, producer_id: int, is_committed: bool = True, epoch: int = 0) -> None:
        """The transaction has ended, as its marker says."""
        self.replay_marker(Marker(producer_id, epoch, is_committed, 1))
        self.epochs[producer_id] = epoch

    def unstable(self, group_id: str, *places: str) -> set[str]:
        """The places of which no stable offset is told; of all that are told, without any."""
        group = OffsetFetchGroup(group_id, tuple(map(place, places)), all_partitions=not places)
        found = self.fetch_group(group, require_stable=True)
        return {
            f"{result.partition.topic}:{result.partition.partition}"
            for result in found.partitions
            if isinstance(result.error, UnstableOffsetCommitError)
        }

    def fetch_group(self, group: OffsetFetchGroup, require_stable: bool = False) -> Any:
        answer = self.send(OffsetFetchRequest((group,), require_stable))
        assert isinstance(answer, OffsetFetchResponse)
        (found,) = answer.groups
        return found

    def fetched(self, group_id: str, *places: str) -> dict[str, int]:
        """All offsets of the group, or those of the places."""
        partitions = tuple(map(place, places))
        found = self.fetch_group(OffsetFetchGroup(group_id, partitions, all_partitions=not places))
        assert found.error is None
        assert all(result.error is None for result in found.partitions)
        return {f"{result.partition.topic}:{result.partition.partition}": result.offset for result in found.partitions}

    def delete(self, group_id: str, *places: str) -> list[type[ApiError] | None]:
        answer = self.send(OffsetDeleteRequest(group_id, tuple(map(place, places))))
        assert isinstance(answer, OffsetDeleteResponse)
        assert [result.partition for result in answer.partitions] == list(map(place, places))
        return errors(answer)


def must_take(producer: TxnProducer, epochs: dict[int, int]) -> None:
    """As a log that knows these epochs."""
    if producer.producer_epoch < epochs.get(producer.producer_id, -1):
        raise InvalidProducerEpochError


def compacted_log(log: list[Logged]) -> list[Logged]:
    """The log as its cleaner leaves it: up to the first offset of a transaction that is open, of each key the last
    record that counts, and no tombstone; the markers stay."""
    first: dict[int, int] = {}
    decided: dict[int, bool] = {}
    of_key: dict[bytes, int] = {}
    for number, one in enumerate(log):
        if isinstance(one, Marker):
            first.pop(one.producer_id, None)
        elif one[2] is not None:
            first.setdefault(one[2].producer_id, number)
    end = min(first.values(), default=len(log))
    for number in reversed(range(len(log))):
        one = log[number]
        if isinstance(one, Marker):
            decided[one.producer_id] = one.is_committed
        elif number < end and (one[2] is None or one[1] is None or decided.get(one[2].producer_id, False)):
            of_key.setdefault(one[0], number)
    kept = set(of_key.values())
    return [
        one
        for number, one in enumerate(log)
        if number >= end or isinstance(one, Marker) or (number in kept and one[1] is not None)
    ]


def place(text: str) -> TopicPartition:
    topic, _, partition = text.partition(":")
    return TopicPartition(topic, int(partition))


def errors(answer: Any) -> list[type[ApiError] | None]:
    return [None if result.error is None else type(result.error) for result in answer.partitions]
