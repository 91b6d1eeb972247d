"""Creates and deletes topics, and adds partitions to them, by way of any broker, which forwards that to the controller.

Each change is over when every broker in service has heard of it. A request whose answer was lost is repeated; what the
repetition is told is then read as what the first attempt may have done. Not here: configurations (configs.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from penstock.client.admin import configs
from penstock.client.admin.admin_types import TopicDescription
from penstock.client.admin.configs import IN_VAIN_MS, VISIBLE_POLL_MS
from penstock.client.admin.portions import PARTITIONS_MAX, after_others
from penstock.client.admin.topic_answers import description, existing, has_leaders, only_outcome
from penstock.client.admin.topic_views import ask_brokers, find
from penstock.client.cluster.arguments import (
    MAX_INT32,
    checked_assignments,
    checked_mapping,
    checked_number,
    checked_topic,
)
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import Connection
from penstock.client.wire.messages import TopicInfo
from penstock.client.wire.topic_messages import NewPartitions, NewTopic, TopicAnswer, TopicOutcome
from penstock.config_keys import config_text
from penstock.errors import (
    ApiError,
    InvalidPartitionsError,
    TimedOutError,
    TopicExistsError,
    UnknownTopicIdError,
)


def new_topic(
    name: str, partitions: int | None, replication_factor: int, config: Mapping[str, Any] | None, assignments: Any
) -> NewTopic:
    """What a user wants created; TypeError or ValueError if it cannot be a topic."""
    by_hand = checked_assignments(assignments)
    if partitions is None:
        partitions = -1 if by_hand else 1
    changes = checked_mapping("config", config, '{"retention.ms": 86400000}')
    return NewTopic(
        checked_topic(name),
        checked_number("partitions", partitions, -1, MAX_INT32),
        checked_number("replication_factor", replication_factor, -1, MAX_INT32),
        {key: config_text(value) for key, value in changes.items()},
        by_hand,
    )


class TopicChanges:
    """What one admin client changes."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    def _is_over(self, deadline_ms: int) -> bool:
        return self._cluster.clock.now_ms() >= deadline_ms

    # -- create --------------------------------------------------------------------------------------------------------

    async def create(self, topic: NewTopic, deadline_ms: int) -> TopicDescription:
        """The topic, once every partition has a leader that every broker knows."""
        return await self._wait_visible(topic.name, await self._create(topic, deadline_ms), deadline_ms)

    async def _create(self, topic: NewTopic, deadline_ms: int) -> str:
        maybe_created = False  # an attempt failed, and its outcome is unknown

        async def create(connection: Connection, timeout_ms: int) -> str:
            nonlocal maybe_created
            try:
                return (await _done(connection.create_topics((topic,), timeout_ms))).topic_id
            except TopicExistsError as error:
                raise error.of_repetition() if maybe_created else error from None
            except ApiError as error:
                maybe_created = maybe_created or outcome_unknown(error)
                raise

        return await self._cluster.ask_any(create, deadline_ms)

    async def _wait_visible(self, name: str, topic_id: str, deadline_ms: int) -> TopicDescription:
        waits = False
        in_vain_ms = self._cluster.clock.now_ms() + IN_VAIN_MS
        while True:
            told = await self._ask_every_broker(name, deadline_ms, "created")
            is_over = self._is_over(deadline_ms)
            seen = [topic for topic in told if topic is not None]
            is_cut_off = waits and is_over and None in told  # our own deadline ended that broker's last answer
            if seen and all(has_leaders(topic, topic_id) for topic in seen) and not is_cut_off:
                return description(seen[0])
            if not seen and (is_over or configs.is_in_vain(self._cluster, in_vain_ms)):
                raise TimedOutError(
                    f"topic {name!r} was created, but no broker can be asked whether its partitions have leaders:"
                    f" {configs.unreachable(self._cluster)}"
                )
            if is_over:
                silent = f"; not asked: {configs.unreachable(self._cluster)}" if None in told else ""
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
        by_hand = {first + at: replicas for at, replicas in enumerate(assignments)}
        *steps, last = _steps(NewPartitions(name, topic.topic_id, total, by_hand), first)
        if validate_only or steps:  # nothing is added where the whole would be refused
            await self._add(NewPartitions(name, topic.topic_id, total, by_hand), deadline_ms, validate_only=True)
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

    async def _add(self, asked: NewPartitions, deadline_ms: int, *, validate_only: bool) -> TopicAnswer:
        """A refusal after an attempt without an answer was caused by that attempt if the topic is now as it was asked
        for, which the number of partitions in the outcome says."""
        maybe_added = False  # an attempt failed, and its outcome is unknown

        async def add(connection: Connection, timeout_ms: int) -> TopicAnswer:
            nonlocal maybe_added
            try:
                return await connection.create_partitions((asked,), timeout_ms, validate_only)
            except ApiError as error:
                maybe_added = maybe_added or outcome_unknown(error)
                raise

        answer = await self._cluster.ask_any(add, deadline_ms)
        outcome = only_outcome(answer)
        is_done = maybe_added and not validate_only and outcome.partitions == asked.total
        if isinstance(outcome.error, UnknownTopicIdError):
            raise _deleted_by_another(asked.name, asked.topic_id)
        if outcome.error is not None and not (is_done and isinstance(outcome.error, InvalidPartitionsError)):
            raise outcome.error
        return answer

    # -- delete --------------------------------------------------------------------------------------------------------

    async def delete(self, name: str, deadline_ms: int) -> None:
        """Deletes the topic that has the name now; over when no broker in service knows it any more."""
        topic_id = (await find(self._cluster, name, deadline_ms)).topic_id
        await self._delete_by_id(name, topic_id, deadline_ms)
        self._cluster.tracked.discard(name)
        await self._wait_gone(name, topic_id, deadline_ms)

    async def _wait_gone(self, name: str, topic_id: str, deadline_ms: int) -> None:
        waits = False
        while True:
            told = await self._ask_every_broker(name, deadline_ms, "deleted")
            is_over = self._is_over(deadline_ms)
            is_known = any(topic is not None and topic.topic_id == topic_id for topic in told)
            if not is_known and not (waits and is_over and None in told):
                return
            if is_over:
                silent = f"; not asked: {configs.unreachable(self._cluster)}" if None in told else ""
                raise TimedOutError(
                    f"topic {name!r} was deleted, but a broker still has it in its metadata; look again later{silent}"
                )
            waits = True
            await asyncio.sleep(VISIBLE_POLL_MS / 1000)

    async def _delete_by_id(self, name: str, topic_id: str, deadline_ms: int) -> None:
        maybe_deleted = False  # an attempt failed, and its outcome may be unknown

        async def delete(connection: Connection, timeout_ms: int) -> bool:
            nonlocal maybe_deleted
            try:
                await _done(connection.delete_topics((topic_id,), timeout_ms))
            except UnknownTopicIdError:
                return maybe_deleted  # the controller's own word: trying again would not change it
            except ApiError as error:
                maybe_deleted = maybe_deleted or outcome_unknown(error)
                raise
            return True

        if not await self._cluster.ask_any(delete, deadline_ms):
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
    """The same in requests for a bounded number of partitions each; `first` is the number of the first new one."""
    totals = [*range(first + PARTITIONS_MAX, asked.total, PARTITIONS_MAX), asked.total]
    if len(totals) == 1:
        return [asked]
    return [
        replace(asked, total=total, assignment={p: r for p, r in asked.assignment.items() if before <= p < total})
        for before, total in pairwise((first, *totals))
    ]


async def _done(answer: Awaitable[TopicAnswer]) -> TopicOutcome:
    """The only outcome of a request for one topic; its error is raised."""
    outcome = only_outcome(await answer)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _deleted_by_another(name: str, topic_id: str) -> UnknownTopicIdError:
    return UnknownTopicIdError(f"topic {name!r} with id {topic_id} was deleted by another client")
