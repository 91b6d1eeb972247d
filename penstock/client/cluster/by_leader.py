"""Asks the leader of each partition something, until every one has answered: what ListOffsets and DeleteRecords share.

Questions are put together by leader; what fails with a retriable error is asked again after a metadata refresh, within
the deadline, so only what may be asked twice belongs here. An error that is not retriable is raised at once. A leader
that is silent is left as soon as there is another one. `ask_leaders_once` is one such round, for a caller that goes on
with the partitions that were answered and comes back to the others later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from penstock.client.cluster.any_node import SILENCE_MS
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import UNANSWERED, ServerErrors
from penstock.client.wire.connection import Connection
from penstock.errors import (
    ApiError,
    InvalidTopicError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    TimedOutError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.types import TopicPartition

PARTITIONS_PER_CALL_MAX = 1_000
"""Limit for one call; a leader is asked for more in several calls at the same time."""

NAMED_MAX = 3

W = TypeVar("W")
R = TypeVar("R")


class LeaderQuestion(NamedTuple, Generic[W]):
    """A question about one partition of exactly this topic, to the leader of this epoch."""

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    wanted: W


class Answer(NamedTuple, Generic[R]):
    """The answer of one leader about one partition; `found` counts only without an error."""

    partition: TopicPartition
    error: ApiError | None
    found: R


class Round(NamedTuple, Generic[R]):
    """The result of each question: the leader's answer, or the error in its place."""

    found: dict[TopicPartition, R]
    failed: dict[TopicPartition, ApiError]


LeaderCall = Callable[[Connection, Sequence[LeaderQuestion[W]], int], Awaitable[Sequence[Answer[R]]]]
"""One call to one leader; the number is the time that is left, in ms."""


async def ask_leaders(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, W],
    call: LeaderCall[W, R],
    timeout_ms: int,
    topic_ids: Mapping[str, str] | None = None,
) -> dict[TopicPartition, R]:
    """The answers of the leaders of all partitions.

    A topic that is made anew meanwhile is asked under its new id; with `topic_ids` (by name) it is an error, because
    what is wanted is meant for those topics alone.
    """
    deadline_ms = cluster.clock.now_ms() + timeout_ms
    await check_partitions(cluster, wanted, timeout_ms)
    found: dict[TopicPartition, R] = {}
    reported = ServerErrors[TopicPartition]()
    attempt = 0
    while True:
        attempt += 1
        missing = {tp: wanted[tp] for tp in wanted if tp not in found}
        _check_topics(cluster, missing, topic_ids or {})
        left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
        answers = await ask_leaders_once(cluster, missing, call, left_ms)
        found |= answers.found
        if not answers.failed:
            return found
        for tp, failure in answers.failed.items():
            reported.note(tp, failure)
        error = _worst(reported.for_user(tp, failure) for tp, failure in answers.failed.items())
        if not error.retriable:
            raise error
        wait_ms = cluster.backoff.wait_ms(attempt)
        if cluster.clock.now_ms() + wait_ms >= deadline_ms:
            if isinstance(error, UNANSWERED):
                raise TimedOutError(f"no answer within {timeout_ms} ms; the last error: {error}") from error
            raise error
        cluster.refresh_soon()
        await asyncio.sleep(max(wait_ms, 1) / 1000)


async def check_partitions(cluster: ClusterClient, partitions: Iterable[TopicPartition], timeout_ms: int) -> None:
    """`check_partition` for each, after one refresh for all topics that are not known."""
    wanted = list(partitions)
    deadline_ms = cluster.clock.now_ms() + timeout_ms
    await cluster.meet_topics((tp.topic for tp in wanted), deadline_ms)
    for tp in wanted:
        await check_partition(cluster, tp, deadline_ms - cluster.clock.now_ms())


async def check_partition(cluster: ClusterClient, tp: TopicPartition, timeout_ms: int) -> None:
    """Learns the topic's metadata; UnknownTopicOrPartitionError when there is no such partition."""
    if not tp.topic:
        raise InvalidTopicError("the topic name is empty")
    deadline_ms = cluster.clock.now_ms() + timeout_ms
    info = await cluster.topic(tp.topic, timeout_ms)
    if tp.partition >= len(info.partitions):  # what is cached may be older than the partition
        await cluster.refresh((tp.topic,), deadline_ms=deadline_ms)
        info = await cluster.topic(tp.topic, deadline_ms - cluster.clock.now_ms())
    if not 0 <= tp.partition < len(info.partitions):
        raise UnknownTopicOrPartitionError(
            f"topic {tp.topic!r} has partitions 0 to {len(info.partitions) - 1}, not {tp.partition}"
        )


def _check_topics(cluster: ClusterClient, missing: Iterable[TopicPartition], topic_ids: Mapping[str, str]) -> None:
    for tp in missing:
        meant = topic_ids.get(tp.topic)
        if meant is not None and cluster.cache.topic_id(tp.topic) != meant:
            raise UnknownTopicIdError(f"topic {tp.topic!r} with id {meant} was deleted")


def _worst(errors: Iterable[ApiError]) -> ApiError:
    """The first that asking again will not mend, else the first."""
    known = list(errors)
    return next((error for error in known if not error.retriable), known[0])


async def ask_leaders_once(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, W], call: LeaderCall[W, R], left_ms: int
) -> Round[R]:
    """One round, to the leaders that are known now. Each question ends by itself: found, or failed."""
    by_node: dict[int, list[LeaderQuestion[W]]] = {}
    answers: Round[R] = Round({}, {})
    for tp, what in wanted.items():
        leader = cluster.cache.leader(tp)
        if leader is None:
            why = f"{tp} has {cluster.cache.why_offline(tp) or 'no leader now'}"
            answers.failed[tp] = LeaderNotAvailableError(why)
            continue
        by_node.setdefault(leader.node_id, []).append(
            LeaderQuestion(tp, cluster.cache.topic_id(tp.topic), leader.epoch, what)
        )
    await asyncio.gather(
        *(
            _ask(cluster, node, questions[at : at + PARTITIONS_PER_CALL_MAX], call, left_ms, answers)
            for node, questions in by_node.items()
            for at in range(0, len(questions), PARTITIONS_PER_CALL_MAX)
        )
    )
    return answers


async def _ask(
    cluster: ClusterClient,
    node: int,
    questions: list[LeaderQuestion[W]],
    call: LeaderCall[W, R],
    left_ms: int,
    answers: Round[R],
) -> None:
    """One call to one leader; what comes of it goes to `answers`."""
    try:
        connection = cluster.require_connection(node)
        asked = asyncio.ensure_future(call(connection, questions, left_ms))
        answered = await _answer_or_another_leader(cluster, node, questions, asked)
        if sorted(answer.partition for answer in answered) != sorted(question.partition for question in questions):
            named = ", ".join(str(answer.partition) for answer in answered[:NAMED_MAX])
            raise UnknownServerError(
                f"node {node} was asked about {len(questions)} partitions from {questions[0].partition} on,"
                f" and answered about {len(answered)}: {named}"
            )
    except ApiError as error:
        answers.failed.update((question.partition, error) for question in questions)
        return
    for answer in answered:
        _take(cluster, answer, answers)


async def _answer_or_another_leader(
    cluster: ClusterClient,
    node: int,
    questions: list[LeaderQuestion[W]],
    asked: asyncio.Future[Sequence[Answer[R]]],
) -> Sequence[Answer[R]]:
    """A leader that is silent may hang: others are asked who leads now, and it is left once there is a newer leader."""
    try:
        while True:
            done, _ = await asyncio.wait((asked,), timeout=SILENCE_MS / 1000)
            if done:
                return asked.result()
            for question in questions:
                leader = cluster.cache.leader(question.partition)
                if leader is not None and leader != (node, question.leader_epoch):
                    raise NotLeaderOrFollowerError(
                        f"node {node} was silent, and does not lead {question.partition} now"
                    )
            endpoint = cluster.cache.endpoint(node)
            cluster.refresh_soon(avoid=(endpoint,) if endpoint is not None else ())
    finally:
        asked.cancel()


def _take(cluster: ClusterClient, answer: Answer[R], answers: Round[R]) -> None:
    error = answer.error
    if error is None:
        answers.found[answer.partition] = answer.found
        return
    if error.leader is not None:
        cluster.cache.apply_hint(answer.partition, error.leader)
    answers.failed[answer.partition] = error
