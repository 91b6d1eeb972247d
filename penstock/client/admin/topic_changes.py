"""Creates and deletes topics, and adds partitions to them, by way of any broker, which forwards that to the controller.

Each change is over when every broker in service has heard of it. A request whose answer was lost is repeated; what the
repetition is told is then read as what the first attempt may have done. Not here: configurations (configs.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from penstock.client.admin import configs
from penstock.client.admin.admin_types import TopicDescription
from penstock.client.admin.changes import change
from penstock.client.admin.configs import IN_VAIN_MS, VISIBLE_POLL_MS
from penstock.client.admin.portions import PARTITIONS_MAX, REPLICAS_MAX, after_others, portions
from penstock.client.admin.topic_answers import description, existing, has_leaders, only_done, only_outcome
from penstock.client.admin.topic_views import ask_brokers, describe_one, find
from penstock.client.cluster.arguments import (
    MAX_INT32,
    checked_assignments,
    checked_mapping,
    checked_number,
    checked_topic,
)
from penstock.client.cluster.cluster import ClusterClient
from penstock.config_keys import config_text
from penstock.errors import ApiError, TimedOutError, TopicExistsError, UnknownTopicIdError, UnknownTopicOrPartitionError
from penstock.messages.client_apis import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, NAMES_MAX
from penstock.messages.metadata import TopicInfo
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    ReplicaAssignment,
)


def new_topic(
    name: str, partitions: int | None, replication_factor: int, config: Mapping[str, Any] | None, assignments: Any
) -> NewTopic:
    """The topic that a user wants created; TypeError or ValueError if it cannot be one."""
    by_hand = checked_assignments(assignments)
    if partitions is None:
        partitions = -1 if by_hand else 1
    changes = checked_mapping("config", config, '{"retention.ms": 86400000}')
    return NewTopic(
        checked_topic(name),
        checked_number("partitions", partitions, -1, MAX_INT32),
        checked_number("replication_factor", replication_factor, -1, MAX_INT32),
        {key: config_text(value) for key, value in changes.items()},
        tuple(ReplicaAssignment(*one) for one in enumerate(by_hand)),
    )


def checked_topics(given: Sequence[NewTopic]) -> tuple[NewTopic, ...]:
    """The topics that a user wants created; TypeError or ValueError if they are not a list of NewTopic, each once."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise TypeError(f"topics must be a list of NewTopic, not {type(given).__name__}")
    for one in given:
        if not isinstance(one, NewTopic):
            raise TypeError(f"topics must be a list of NewTopic, not of {type(one).__name__}")
    if not given:
        raise ValueError("topics is empty: name one")
    times = Counter(checked_topic(one.name) for one in given)
    if twice := [name for name, number in times.items() if number > 1]:
        raise ValueError(f"topics names {twice[0]!r} {times[twice[0]]} times")
    return tuple(given)


class TopicChanges:
    """The changes of topics by one admin client."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    def _is_over(self, deadline_ms: int) -> bool:
        return self._cluster.clock.now_ms() >= deadline_ms

    # -- create --------------------------------------------------------------------------------------------------------

    async def create(self, topic: NewTopic, deadline_ms: int, *, exist_ok: bool = False) -> TopicDescription:
        """The topic, once every partition has a leader that every broker knows; with `exist_ok` also one that has the
        name already, as it is."""
        try:
            topic_id = await self._create(topic, deadline_ms)
        except TopicExistsError:
            if not exist_ok:
                raise
            return await self._already_there(topic.name, deadline_ms)
        return await self._wait_visible(topic.name, topic_id, deadline_ms)

    async def create_all(
        self, topics: Sequence[NewTopic], deadline_ms: int, *, validate_only: bool
    ) -> dict[str, ApiError | None]:
        """The result for each by its name, in requests that the controller decides quickly. Returns when every broker
        in service has heard of those that were created."""
        found: dict[str, ApiError | None] = {}
        offset = -1
        for some in _in_requests(topics):
            request = CreateTopicsRequest(tuple(some), validate_only)
            answer = await change(self._cluster, CREATE_TOPICS, request, deadline_ms)
            found |= {one.name: one.error for one in answer.topics}
            offset = max(offset, answer.metadata_offset)
        if not validate_only and None in found.values():
            await configs.wait_heard(self._cluster, offset, deadline_ms)
        return found

    async def check(self, topic: NewTopic, deadline_ms: int, *, exist_ok: bool) -> TopicDescription:
        """Raises where the topic would be refused."""
        request = CreateTopicsRequest((topic,), validate_only=True)
        try:
            await change(self._cluster, CREATE_TOPICS, request, deadline_ms, only_done)
        except TopicExistsError:
            if not exist_ok:
                raise
            return await self._already_there(topic.name, deadline_ms)
        return TopicDescription(topic.name, "", (), dict(topic.config))

    async def _already_there(self, name: str, deadline_ms: int) -> TopicDescription:
        """A topic that the controller has: a broker may hear of it a moment later."""
        while True:
            try:
                return await describe_one(self._cluster, name, deadline_ms)
            except UnknownTopicOrPartitionError:
                if self._is_over(deadline_ms):
                    raise
            await asyncio.sleep(VISIBLE_POLL_MS / 1000)

    async def _create(self, topic: NewTopic, deadline_ms: int) -> str:
        answer = await change(self._cluster, CREATE_TOPICS, CreateTopicsRequest((topic,)), deadline_ms, only_done)
        return only_outcome(answer).topic_id

    async def _wait_visible(self, name: str, topic_id: str, deadline_ms: int) -> TopicDescription:
        waits = False
        in_vain_ms = self._cluster.clock.now_ms() + IN_VAIN_MS
        while True:
            answers = await self._ask_every_broker(name, deadline_ms, "created")
            is_over = self._is_over(deadline_ms)
            seen = [topic for topic in answers if topic is not None]
            is_cut_off = waits and is_over and None in answers  # our own deadline ended that broker's last answer
            if seen and all(has_leaders(topic, topic_id) for topic in seen) and not is_cut_off:
                return description(seen[0])
            if not seen and (is_over or configs.is_in_vain(self._cluster, in_vain_ms)):
                raise TimedOutError(
                    f"topic {name!r} was created, but no broker can be asked whether its partitions have leaders:"
                    f" {configs.unreachable(self._cluster)}"
                )
            if is_over:
                silent = f"; not asked: {configs.unreachable(self._cluster)}" if None in answers else ""
                raise TimedOutError(
                    f"topic {name!r} was created, but some partitions have no leader yet; wait and use it{silent}"
                )
            waits = True
            await asyncio.sleep(VISIBLE_POLL_MS / 1000)

    # -- more partitions -----------------------------------------------------------------------------------------------

    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: Sequence[tuple[int, ...]],
        deadline_ms: int,
        *,
        validate_only: bool,
    ) -> TopicDescription:
        """The topic that has the name now, with its new partitions; as it is where the request is only checked."""
        topic = await find(self._cluster, name, deadline_ms)
        first = len(topic.partitions)
        by_hand = tuple(ReplicaAssignment(first + at, replicas) for at, replicas in enumerate(assignments))
        whole = NewPartitions(name, total, by_hand, topic.topic_id)
        *steps, last = _steps(whole, first)
        if validate_only or steps:  # nothing is added where the whole would be refused
            await self._add(whole, deadline_ms, validate_only=True)
        if validate_only:
            return description(topic)
        for asked in steps:
            with after_others(asked.total - first - PARTITIONS_MAX, total - first):
                await self._add(asked, deadline_ms, validate_only=False)
        with after_others(len(steps) * PARTITIONS_MAX, total - first):
            answer = await self._add(last, deadline_ms, validate_only=False)
        await configs.wait_heard(self._cluster, answer.metadata_offset, deadline_ms)
        with configs.done_but(f"topic {name!r} has {total} partitions now"):
            snapshot = await self._cluster.refresh((name,), deadline_ms=deadline_ms)
        found = existing(name, snapshot.topics)
        if found.topic_id != topic.topic_id:
            raise _deleted_by_another(name, topic.topic_id)
        return description(found)

    async def _add(self, asked: NewPartitions, deadline_ms: int, *, validate_only: bool) -> CreatePartitionsResponse:
        request = CreatePartitionsRequest((asked,), validate_only)
        answer = await change(self._cluster, CREATE_PARTITIONS, request, deadline_ms)
        outcome = only_outcome(answer)
        if isinstance(outcome.error, UnknownTopicIdError):
            raise _deleted_by_another(asked.name, asked.topic_id)
        if outcome.error is not None:
            raise outcome.error
        return answer

    async def add_to_all(
        self, totals: Mapping[str, int], deadline_ms: int, *, validate_only: bool
    ) -> dict[str, ApiError | None]:
        """The result for each topic by its name, in requests that the controller decides quickly; a topic that gets
        more partitions than one may have has its own. Returns when every broker in service has heard of them."""
        there, found = await self._existing(totals, deadline_ms)
        more = {name: max(totals[name] - len(topic.partitions), 1) for name, topic in there.items()}
        small = [name for name in there if more[name] <= PARTITIONS_MAX]
        offset = -1
        for names in portions(small, lambda name: more[name] * REPLICAS_MAX // PARTITIONS_MAX):
            asked = tuple(NewPartitions(name, totals[name], (), there[name].topic_id) for name in names)
            request = CreatePartitionsRequest(asked, validate_only)
            answer = await change(self._cluster, CREATE_PARTITIONS, request, deadline_ms)
            found |= {name: one.error for name, one in zip(names, answer.topics, strict=True)}
            offset = max(offset, answer.metadata_offset)
        for name in (one for one in there if more[one] > PARTITIONS_MAX):
            try:
                await self.add_partitions(name, totals[name], (), deadline_ms, validate_only=validate_only)
                found[name] = None
            except ApiError as error:
                found[name] = error
        if not validate_only and None in found.values():
            await configs.wait_heard(self._cluster, offset, deadline_ms)
        return found

    async def _existing(
        self, names: Collection[str], deadline_ms: int
    ) -> tuple[dict[str, TopicInfo], dict[str, ApiError | None]]:
        """The topics that have these names now, and the errors of those that do not exist."""
        wanted, listed = tuple(names), dict[str, TopicInfo]()
        for at in range(0, len(wanted), NAMES_MAX):  # by name: of all topics, those that may not be seen are left out
            some = await self._cluster.list_topics(deadline_ms, wanted[at : at + NAMES_MAX])
            listed |= {topic.name: topic for topic in some}
        there: dict[str, TopicInfo] = {}
        errors: dict[str, ApiError | None] = {}
        for name in wanted:
            try:
                there[name] = existing(name, [listed[name]] if name in listed else [])
            except ApiError as error:
                errors[name] = error
        return there, errors

    # -- delete --------------------------------------------------------------------------------------------------------

    async def delete_all(
        self, names: Collection[str], deadline_ms: int, *, missing_ok: bool
    ) -> dict[str, ApiError | None]:
        """The result for each topic by its name, in requests that the controller decides quickly. Returns when every
        broker in service has heard that they are gone."""
        there, found = await self._existing(names, deadline_ms)
        offset = -1
        for some in portions(there.values(), lambda topic: len(topic.partitions)):
            request = DeleteTopicsRequest(tuple(topic.topic_id for topic in some))
            answer = await change(self._cluster, DELETE_TOPICS, request, deadline_ms)
            found |= {topic.name: one.error for topic, one in zip(some, answer.topics, strict=True)}
            offset = max(offset, answer.metadata_offset)
        if None in found.values():
            await configs.wait_heard(self._cluster, offset, deadline_ms)
        for name, error in found.items():
            if missing_ok and isinstance(error, (UnknownTopicOrPartitionError, UnknownTopicIdError)):
                found[name] = None
            if found[name] is None:
                self._cluster.tracked.discard(name)
        return found

    async def delete(self, name: str, deadline_ms: int, *, missing_ok: bool = False) -> None:
        """Deletes the topic that has the name now; over when no broker in service knows it any more."""
        try:
            topic_id = (await find(self._cluster, name, deadline_ms)).topic_id
            await self._delete_by_id(name, topic_id, deadline_ms)
        except (UnknownTopicOrPartitionError, UnknownTopicIdError):
            if missing_ok:
                return
            raise
        self._cluster.tracked.discard(name)
        await self._wait_gone(name, topic_id, deadline_ms)

    async def _wait_gone(self, name: str, topic_id: str, deadline_ms: int) -> None:
        waits = False
        while True:
            answers = await self._ask_every_broker(name, deadline_ms, "deleted")
            is_over = self._is_over(deadline_ms)
            is_known = any(topic is not None and topic.topic_id == topic_id for topic in answers)
            if not is_known and not (waits and is_over and None in answers):
                return
            if is_over:
                silent = f"; not asked: {configs.unreachable(self._cluster)}" if None in answers else ""
                raise TimedOutError(
                    f"topic {name!r} was deleted, but a broker still has it in its metadata; look again later{silent}"
                )
            waits = True
            await asyncio.sleep(VISIBLE_POLL_MS / 1000)

    async def _delete_by_id(self, name: str, topic_id: str, deadline_ms: int) -> None:
        request = DeleteTopicsRequest((topic_id,))
        answer = await change(self._cluster, DELETE_TOPICS, request, deadline_ms, _unless_unknown)
        if only_outcome(answer).error is not None:
            raise _deleted_by_another(name, topic_id)

    # -- what brokers know ---------------------------------------------------------------------------------------------

    async def _ask_every_broker(self, name: str, deadline_ms: int, done: str) -> list[TopicInfo | None]:
        """The topic as each broker in service has it; None for one that does not answer."""
        with configs.done_but(f"topic {name!r} was {done}"):
            await self._cluster.refresh(deadline_ms=deadline_ms)
        endpoints = [b.endpoint for b in self._cluster.cache.brokers if not b.fenced]
        return await ask_brokers(self._cluster, name, endpoints, deadline_ms)

    def __repr__(self) -> str:
        return f"TopicChanges({self._cluster!r})"


def _steps(asked: NewPartitions, first: int) -> list[NewPartitions]:
    """The new partitions in requests for a bounded number of them each; `first` is the number of the first new one."""
    totals = [*range(first + PARTITIONS_MAX, asked.total, PARTITIONS_MAX), asked.total]
    if len(totals) == 1:
        return [asked]
    return [
        replace(
            asked, total=total, assignment=tuple(one for one in asked.assignment if before <= one.partition < total)
        )
        for before, total in pairwise((first, *totals))
    ]


def _in_requests(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    """The topics in lists that a request may have; a topic with more partitions than that has one of its own."""
    some: list[NewTopic] = []
    records = 0
    for topic in topics:
        made = 1 + max(topic.partitions, len(topic.assignment), 1) + len(topic.config)
        if some and (records + made > PARTITIONS_MAX or len(some) == NAMES_MAX):
            yield some
            some, records = [], 0
        some.append(topic)
        records += made
    if some:
        yield some


def _unless_unknown(answer: DeleteTopicsResponse) -> None:
    """Raises the only error, unless it is the controller's own word that there is no such topic: trying again would not
    change it."""
    error = only_outcome(answer).error
    if error is not None and not isinstance(error, UnknownTopicIdError):
        raise error


def _deleted_by_another(name: str, topic_id: str) -> UnknownTopicIdError:
    return UnknownTopicIdError(f"topic {name!r} with id {topic_id} was deleted by another client")
