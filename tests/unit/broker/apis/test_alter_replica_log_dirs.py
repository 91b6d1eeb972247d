"""Promises of AlterReplicaLogDirs: each replica has an answer, and too many requests are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from broker.apis.alter_replica_log_dirs import OPEN_REQUESTS_MAX, AlterReplicaLogDirsApi
from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from penstock.errors import ApiError, InvalidRequestError, LogDirNotFoundError, ResourceExhaustedError
from penstock.messages.elections import NamedPartitions
from penstock.messages.log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from penstock.types import TopicPartition
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


class Moves:
    """Answers when `may_answer` is set."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked: dict[TopicPartition, str] = {}

    async def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ApiError | None]:
        self.asked |= wanted
        await self.may_answer.wait()
        return {tp: None if path == "/b" else LogDirNotFoundError(path) for tp, path in wanted.items()}


def api(moves: Moves) -> AlterReplicaLogDirsApi:
    return AlterReplicaLogDirsApi(7, cast(LogDirMoves, moves), FailedRequests(on_fatal).fail)


async def a_few_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def on_fatal(error: BaseException) -> None:
    raise error


def asking(*wanted: tuple[TopicPartition, str]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        tuple(AlterReplicaLogDir(path, (NamedPartitions(tp.topic, (tp.partition,)),)) for tp, path in wanted)
    )


def request() -> Request:
    return Request("AlterReplicaLogDirs", None, Sink(), CALLER, NOW_NS)


def test_each_replica_has_an_answer_and_one_that_is_named_twice_is_refused() -> None:
    async def scenario() -> None:
        moves, asked = Moves(), request()
        moves.may_answer.set()
        wanted = ((ONE, "/b"), (TWO, "/b"), (TWO, "/c"), (TopicPartition("t", 3), "/c"))
        api(moves).handle(asked, asking(*wanted))
        await a_few_turns()
        assert isinstance(asked.response, AlterReplicaLogDirsResponse) and asked.response.node_id == 7
        results = {result.partition: result.error for result in asked.response.results}
        assert results[ONE] is None and isinstance(results[TWO], InvalidRequestError)
        assert isinstance(results[TopicPartition("t", 3)], LogDirNotFoundError)
        assert TWO not in moves.asked

    asyncio.run(scenario())


def test_more_open_requests_than_allowed_are_refused() -> None:
    async def scenario() -> None:
        moves = Moves()
        handler, body = api(moves), asking((ONE, "/b"))
        open_ones = [request() for _ in range(OPEN_REQUESTS_MAX)]
        for one in open_ones:
            handler.handle(one, body)
        with pytest.raises(ResourceExhaustedError, match="try again later"):
            handler.handle(request(), body)
        moves.may_answer.set()
        await a_few_turns()
        assert all(one.response is not None for one in open_ones)
        handler.handle(request(), body)
        await a_few_turns()

    asyncio.run(scenario())
