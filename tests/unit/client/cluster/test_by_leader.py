"""Questions to leaders: a leader that is silent is left once there is another one; a slow one is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.client.cluster.by_leader import Answer, LeaderQuestion, ask_leaders, ask_leaders_once
from penstock.errors import (
    ApiError,
    KafkaStorageError,
    LeaderNotAvailableError,
    RequestTimedOutError,
    UnknownServerError,
)
from penstock.types import NO_LEADER, Endpoint, TopicPartition
from tests.support.scripted_fetch import TP, ScriptedCluster
from tests.support.virtual_time import run_virtual


def test_a_silent_leader_is_left_as_soon_as_another_one_is_known() -> None:
    cluster: Any = ScriptedCluster()
    cluster.on_refresh = lambda: cluster.learn(leader=2, epoch=1)
    asked = []

    async def call(connection: Any, questions: Sequence[LeaderQuestion[int]], left_ms: int) -> Sequence[Answer[str]]:
        asked.append((connection.endpoint.host, questions[0].leader_epoch))
        if connection.endpoint.host == "host-1":
            await asyncio.Event().wait()
        return [Answer(q.partition, None, "found") for q in questions]

    assert run_virtual(ask_leaders(cluster, {TP: 1}, call, 60_000)) == {TP: "found"}
    assert asked == [("host-1", 0), ("host-2", 1)]
    assert cluster.avoid == {Endpoint("host-1", 1)}


def test_a_leader_that_is_only_slow_is_waited_for() -> None:
    cluster: Any = ScriptedCluster()
    go_on = asyncio.Event()

    def on_refresh() -> None:
        if cluster.refreshes == 3:
            go_on.set()

    cluster.on_refresh = on_refresh

    async def call(connection: Any, questions: Sequence[LeaderQuestion[int]], left_ms: int) -> Sequence[Answer[str]]:
        await go_on.wait()
        return [Answer(q.partition, None, "found") for q in questions]

    assert run_virtual(ask_leaders(cluster, {TP: 1}, call, 60_000)) == {TP: "found"}


def test_an_error_of_the_call_is_what_it_was() -> None:
    cluster: Any = ScriptedCluster()
    failures = [RequestTimedOutError("late")]

    async def call(connection: Any, questions: Sequence[LeaderQuestion[int]], left_ms: int) -> Sequence[Answer[str]]:
        if failures:
            raise failures.pop()
        return [Answer(q.partition, None, "found") for q in questions]

    assert run_virtual(ask_leaders(cluster, {TP: 1}, call, 60_000)) == {TP: "found"}


def test_a_partition_without_a_leader_is_told_with_what_the_cluster_says_of_it() -> None:
    cluster: Any = ScriptedCluster()

    async def call(connection: Any, questions: Sequence[LeaderQuestion[int]], left_ms: int) -> Sequence[Answer[str]]:
        raise AssertionError("there is nobody to ask")

    for why, message in (
        (None, "t-0 has no leader now"),
        ("no leader: start broker 7", "t-0 has no leader: start broker 7"),
    ):
        cluster.learn(leader=NO_LEADER, epoch=1, error=None if why is None else LeaderNotAvailableError(why))
        answers = run_virtual(ask_leaders_once(cluster, {TP: 1}, call, 60_000))
        assert str(answers.failed[TP]) == message


def test_an_answer_about_another_partition_counts_for_none() -> None:
    cluster: Any = ScriptedCluster()

    async def call(connection: Any, questions: Sequence[LeaderQuestion[int]], left_ms: int) -> Sequence[Answer[str]]:
        return [Answer(TopicPartition("t", 1), None, "found")]

    with pytest.raises(UnknownServerError, match="asked about 1 partitions from t-0 on, and answered about 1: t-1"):
        run_virtual(ask_leaders(cluster, {TP: 1}, call, 60_000))


def test_what_a_leader_told_is_the_error_when_the_deadline_cuts_the_last_attempt_off() -> None:
    cluster: Any = ScriptedCluster()
    outcomes: list[ApiError] = [KafkaStorageError("the disk is full"), RequestTimedOutError("late")]

    async def call(connection: Any, questions: Sequence[LeaderQuestion[int]], left_ms: int) -> Sequence[Answer[str]]:
        if len(outcomes) == 1:
            await asyncio.sleep(left_ms / 1000)
        raise outcomes.pop(0)

    with pytest.raises(KafkaStorageError, match=r"^the disk is full; the last attempt had no answer: late$"):
        run_virtual(ask_leaders(cluster, {TP: 1}, call, 1_000))
