"""OffsetFetch 1 to 10 (key 9): the positions that groups have committed.

    1         errors of the request are told for each partition
    2         …and in the answer's own `error_code`; no topics mean all
    7         stable offsets; some errors of the request stand beside the partitions (BESIDE_ERROR)
    8         many groups, each with its error
    9         members of the consumer protocol say who they are
    10        topics come by id

A topic need not exist to have an offset, so names are not looked up; an id that no topic has is UNKNOWN_TOPIC_ID. More
partitions or groups than one of the node's own requests has are asked for in turns. The answer is made with pauses: a
group may have offsets of as many partitions as the cluster has, and all of them are asked for by its name alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import field
from itertools import count
from typing import Final, TypeVar

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.groups.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
    StaleMemberEpochError,
    UnknownTopicIdError,
    UnstableOffsetCommitError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.client_apis import ASKED_MAX, NAMES_MAX
from penstock.messages.groups import offsets as messages
from penstock.messages.groups.group_apis import OFFSET_FETCH
from penstock.types import NO_EPOCH, NO_OFFSET, TopicPartition

FIRST_WITH_ERROR: Final = 2
FIRST_WITH_STABLE: Final = 7
FIRST_WITH_GROUPS: Final = 8
FIRST_WITH_IDS: Final = 10
ASK_AGAIN: Final = -1000
"""The offset beside UNSTABLE_OFFSET_COMMIT, where Kafka has -1. librdkafka (2.16 too) keeps the offset of such an
answer if its assignment changed meanwhile: -1 has it begin where `auto.offset.reset` says, so that what the group has
done is done again, and this one, its RD_KAFKA_OFFSET_STORED, has it ask again. Others look at the error alone."""
BESIDE_ERROR: Final = {
    NotCoordinatorError.code: UnstableOffsetCommitError.code,
    CoordinatorLoadInProgressError.code: UnstableOffsetCommitError.code,
    StaleMemberEpochError.code: StaleMemberEpochError.code,
}
"""The error of a group that a member outlives → that of each partition beside it, where Kafka lists no partitions.
librdkafka (2.16 too, its issue 5586) forgets those that such an answer leaves out: its member goes on to heartbeat, and
never reads them. It asks again for a partition with one of these errors. Others look at the error of the group alone.
"""


@dataclass(slots=True)
class _Topic:
    """A topic of an answer. `name` is None for an id that no topic has."""

    name: str | None
    topic_id: str
    indexes: list[int]


@dataclass(slots=True)
class _Group:
    """A group of the request, and what is known of its answer. `topics` is None where all are asked for."""

    group_id: str
    member_id: str
    member_epoch: int
    topics: list[_Topic] | None
    found: dict[TopicPartition, messages.OffsetFetchResult] = field(default_factory=dict)
    error: ApiError | None = None


T = TypeVar("T")
Paused = Generator[Ask, None, T]
"""Makes a part of the answer, with pauses."""
_Piece = tuple[_Group, messages.OffsetFetchGroup]
"""A group, and as much of its question as one request has."""


def offset_fetch(parts: PlanParts, asked: Asked, body: OffsetFetchRequest) -> Plan:
    numbers = count()
    groups: list[_Group] = []
    for wanted in _groups(parts, asked, body):
        groups.append(wanted)
        if is_pause_due(next(numbers)):
            yield PAUSE
    for some in _portions(groups):
        request = messages.OffsetFetchRequest(tuple(piece for _, piece in some), body.require_stable)
        try:
            made: messages.OffsetFetchResponse = yield Ask(OFFSET_FETCH.name, request)
        except ApiError as error:
            for group, _ in some:
                group.error = error
            continue
        for (group, _), result in zip(some, made.groups, strict=True):
            group.error = group.error or result.error
            for found in result.partitions:
                group.found[found.partition] = found
                if is_pause_due(next(numbers)):
                    yield PAUSE
    for group in groups:
        if group.topics is None:
            group.topics = yield from _all_topics(parts, asked, group, numbers)
    return (yield from _answer(asked, groups, numbers))


def offset_fetch_failed(asked: Asked, body: OffsetFetchRequest, error: ApiError) -> OffsetFetchResponse:
    """The answer to a request that failed before its plan began: the error where the version has its place."""
    topics = [_Topic(one.name, "", one.partition_indexes) for one in body.topics or ()]
    groups = [_Group(body.group_id, "", NO_EPOCH, topics, {}, error)]
    if asked.version >= FIRST_WITH_GROUPS:
        groups = [_Group(one.group_id, "", NO_EPOCH, _topics_as_asked(one), {}, error) for one in body.groups]
    making = _answer(asked, groups, count())
    while True:
        try:
            next(making)
        except StopIteration as made:
            answer: OffsetFetchResponse = made.value
            return answer


# -- the question ------------------------------------------------------------------------------------------------------


def _groups(parts: PlanParts, asked: Asked, body: OffsetFetchRequest) -> Iterator[_Group]:
    if asked.version < FIRST_WITH_GROUPS:
        named = None if body.topics is None else _topics_by_name(body.topics)
        yield _Group(body.group_id, "", NO_EPOCH, named)
        return
    for one in body.groups:
        topics: list[_Topic] | None = None
        if one.topics is not None:
            has_ids = asked.version >= FIRST_WITH_IDS
            topics = _topics_by_id(parts, one.topics) if has_ids else _topics_by_name(one.topics)
        yield _Group(one.group_id, one.member_id or "", one.member_epoch, topics)


def _topics_by_name(topics: Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics]) -> list[_Topic]:
    """Each once."""
    found: dict[str, _Topic] = {}
    for topic in topics:
        found.setdefault(topic.name, _Topic(topic.name, "", [])).indexes += topic.partition_indexes
    return list(found.values())


def _topics_by_id(parts: PlanParts, topics: Iterable[OffsetFetchRequestTopics]) -> list[_Topic]:
    """Each once."""
    found: dict[str, _Topic] = {}
    for topic in topics:
        if topic.topic_id not in found:
            found[topic.topic_id] = _Topic(parts.topic_name(topic.topic_id), topic.topic_id, [])
        found[topic.topic_id].indexes += topic.partition_indexes
    return list(found.values())


def _topics_as_asked(group: OffsetFetchRequestGroup) -> list[_Topic]:
    """Each as the request has it, by name or by id."""
    return [_Topic(topic.name, topic.topic_id, topic.partition_indexes) for topic in group.topics or ()]


def _portions(groups: Iterable[_Group]) -> Iterator[list[_Piece]]:
    """Parts the groups into portions: as many pieces as one request may have, and then the others."""
    some: list[_Piece] = []
    size = 0
    for group in groups:
        for piece in _pieces(group):
            if some and (len(some) == NAMES_MAX or size + len(piece.partitions) > ASKED_MAX):
                yield some
                some, size = [], 0
            some.append((group, piece))
            size += len(piece.partitions)
    if some:
        yield some


def _pieces(group: _Group) -> Iterator[messages.OffsetFetchGroup]:
    """One at least: the group is checked though nothing is asked of it."""
    wanted = [
        TopicPartition(topic.name, index)
        for topic in group.topics or ()
        if topic.name is not None
        for index in topic.indexes
    ]
    for at in range(0, max(len(wanted), 1), ASKED_MAX):
        some = tuple(wanted[at : at + ASKED_MAX])
        yield messages.OffsetFetchGroup(group.group_id, some, group.topics is None, group.member_id, group.member_epoch)


# -- the answer --------------------------------------------------------------------------------------------------------


def _all_topics(parts: PlanParts, asked: Asked, group: _Group, numbers: Iterator[int]) -> Paused[list[_Topic]]:
    """The topics that the group has offsets of; by id only those that still are."""
    indexes: dict[str, list[int]] = {}
    for key in group.found:
        indexes.setdefault(key.topic, []).append(key.partition)
        if is_pause_due(next(numbers)):
            yield PAUSE
    topics: list[_Topic] = []
    for name, some in indexes.items():
        topic_id = parts.topic_id(name) if asked.version >= FIRST_WITH_IDS else ""
        if topic_id is not None:
            topics.append(_Topic(name, topic_id, some))
    return topics


def _answer(asked: Asked, groups: list[_Group], numbers: Iterator[int]) -> Paused[OffsetFetchResponse]:
    if asked.version >= FIRST_WITH_GROUPS:
        of_groups = OffsetFetchResponse()
        for one in groups:
            of_groups.groups.append((yield from _group(asked, one, numbers)))
        return of_groups
    (group,) = groups
    code = code_of(group.error, OFFSET_FETCH.name, asked.version)
    if asked.version < FIRST_WITH_ERROR:
        code = 0
    answer = OffsetFetchResponse(error_code=code)
    if code and not _lists_beside(asked, code):
        return answer
    for topic in group.topics or ():
        partitions: list[OffsetFetchResponsePartition] = []
        for index in topic.indexes:
            partitions.append(_partition(asked, group, topic, index))
            if is_pause_due(next(numbers)):
                yield PAUSE
        answer.topics.append(OffsetFetchResponseTopic(name=topic.name or "", partitions=partitions))
    return answer


def _partition(asked: Asked, group: _Group, topic: _Topic, index: int) -> OffsetFetchResponsePartition:
    offset, epoch, metadata, code = _values(asked, group, topic, index)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=epoch,
        metadata=metadata,
        error_code=code,
    )


def _group(asked: Asked, group: _Group, numbers: Iterator[int]) -> Paused[OffsetFetchResponseGroup]:
    has_ids = asked.version >= FIRST_WITH_IDS
    if is_pause_due(next(numbers)):
        yield PAUSE
    code = code_of(group.error, OFFSET_FETCH.name, asked.version)
    topics: list[OffsetFetchResponseTopics] = []
    for topic in group.topics or () if not code or _lists_beside(asked, code) else ():
        partitions: list[OffsetFetchResponsePartitions] = []
        for index in topic.indexes:
            partitions.append(_partition_of_group(asked, group, topic, index))
            if is_pause_due(next(numbers)):
                yield PAUSE
        topics.append(
            OffsetFetchResponseTopics(
                name="" if has_ids else topic.name or "",
                topic_id=topic.topic_id if has_ids else "",
                partitions=partitions,
            )
        )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)


def _partition_of_group(asked: Asked, group: _Group, topic: _Topic, index: int) -> OffsetFetchResponsePartitions:
    offset, epoch, metadata, code = _values(asked, group, topic, index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=epoch,
        metadata=metadata,
        error_code=code,
    )


def _lists_beside(asked: Asked, code: int) -> bool:
    """True if the answer lists the partitions beside that error of their group."""
    return asked.version >= FIRST_WITH_STABLE and code in BESIDE_ERROR


def _values(asked: Asked, group: _Group, topic: _Topic, index: int) -> tuple[int, int, str, int]:
    """Offset, leader epoch, metadata and error of a partition."""
    error = group.error
    if error is None and topic.name is None:
        error = UnknownTopicIdError(f"there is no topic of the id {topic.topic_id!r}")
    found = None if topic.name is None else group.found.get(TopicPartition(topic.name, index))
    if error is None and found is not None:
        error = found.error
    if error is not None or found is None:
        code = code_of(error, OFFSET_FETCH.name, asked.version)
        if group.error is not None and _lists_beside(asked, code):
            code = BESIDE_ERROR[code]
        return ASK_AGAIN if code == UnstableOffsetCommitError.code else NO_OFFSET, NO_EPOCH, "", code
    return found.offset, found.leader_epoch, found.metadata, 0


SERVED: Final = (
    serves(OffsetFetchRequest, OffsetFetchResponse, (1, 10), over(offset_fetch), failed=offset_fetch_failed),
)
