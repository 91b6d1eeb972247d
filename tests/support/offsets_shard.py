"""The committed offsets of a shard without its driver: topics, groups and time are the test's.

Every record goes through its encoding, so the state is what the log says; the log is kept, for loading it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from broker.coordination.timers import Timers
from broker.coordination.turn import Client, TopicFacts, Turn
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.committed_offsets import CommittedOffsets
from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from penstock.errors import ApiError
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


class OffsetsShard:
    """`Replays` of a test, and its driver."""

    def __init__(self, topics: SomeTopics, **config: Any) -> None:
        self.topics = topics
        self.groups = SomeGroups()
        self.config = GroupConfig(**config)
        self.now_ms = 5_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.portions = 0
        self._new()

    def _new(self) -> None:
        self.timers: Timers[Turn] = Timers()
        self.offsets = CommittedOffsets(self.config, self.groups, self.timers)

    def replay(self, key: Any, value: Any | None) -> None:
        record = encode_group_record(key, value)
        self.log.append(record)
        self._replay_bytes(record)

    def _replay_bytes(self, record: tuple[bytes, bytes | None]) -> None:
        decoded = decode_group_record(*record)
        assert decoded is not None
        self.offsets.state.replays[type(decoded[0])](*decoded)

    def reload(self, compacted: bool = False) -> None:
        """Another broker leads: it has the log alone."""
        last = {key: number for number, (key, _) in enumerate(self.log)}
        if compacted:
            self.log = [(k, v) for n, (k, v) in enumerate(self.log) if last[k] == n and v is not None]
        self._new()
        for record in self.log:
            self._replay_bytes(record)
        self.offsets.loaded(self.turn())

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def wall_ms(self) -> int:
        return T0_MS + self.now_ms

    def turn(self) -> Turn:
        return Turn(self.now_ms, self.wall_ms, self.topics, self, lambda: "id")

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (due_ms := self.timers.next_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for action in self.timers.take_due(self.now_ms):
                action(self.turn())
                self.portions += 1
        self.now_ms = end_ms

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

    def fetch_group(self, group: OffsetFetchGroup) -> Any:
        answer = self.send(OffsetFetchRequest((group,)))
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


def place(text: str) -> TopicPartition:
    topic, _, partition = text.partition(":")
    return TopicPartition(topic, int(partition))


def errors(answer: Any) -> list[type[ApiError] | None]:
    return [None if result.error is None else type(result.error) for result in answer.partitions]
