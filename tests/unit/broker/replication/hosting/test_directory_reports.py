"""Reports of log dirs: what differs from the metadata is told until the controller has acknowledged it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from broker.replication.hosting.directory_reports import REPLICAS_MAX, DirectoryReports
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock.errors import ApiError, RequestTimedOutError, UnknownTopicIdError
from penstock.messages.nodes.brokers import AssignedReplica, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.types import TopicPartition
from tests.support.virtual_time import run_virtual

Answer = Callable[[AssignReplicasToDirsRequest], ApiError | None]


def replica(number: int, log_dir: str = "/a") -> Partition:
    log = SimpleNamespace(log_dir=log_dir)
    return cast(Partition, SimpleNamespace(topic_partition=TopicPartition("t", number), topic_id="id", log=log))


def recorded(number: int, directory: str) -> PartitionRegistration:
    return PartitionRegistration("id", number, (1, 2), (1,), 1, 0, 0, directories=(directory, "x") if directory else ())


class Controller:
    """A controller that records what it is told; `answer` may raise, or be the error of every replica."""

    def __init__(self, answer: Answer = lambda request: None) -> None:
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.answer = answer
        self.reports = DirectoryReports(1, lambda: 7, lambda path: f"id of {path}", self._call, pytest.fail, Random(0))

    async def _call(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.requests.append(request)
        error = self.answer(request)
        named = [(held.topic_id, number) for held in request.replicas for number in held.partitions]
        return AssignReplicasToDirsResponse(tuple(AssignedReplica(*replica, error) for replica in named))

    def run(self, seconds: float, *checks: tuple[Partition, PartitionRegistration]) -> list[int]:
        """How many replicas each request named."""

        async def scenario() -> None:
            self.reports.calls.start()
            for partition, state in checks:
                self.reports.check(partition, state)
            await asyncio.sleep(seconds)
            await self.reports.calls.stop()

        run_virtual(scenario())
        return [sum(len(held.partitions) for held in request.replicas) for request in self.requests]


def test_replica_that_is_not_where_the_metadata_says_is_reported_with_its_dir_and_no_other_one() -> None:
    reports = Controller()
    reports.run(
        1,
        (replica(0, "/a"), recorded(0, "id of /a")),
        (replica(1, "/a"), recorded(1, "")),
        (replica(2, "/b"), recorded(2, "id of /a")),
    )
    (request,) = reports.requests
    assert (request.broker_id, request.broker_epoch) == (1, 7)
    assert [tuple(held) for held in request.replicas] == [("id", (1,), "id of /a"), ("id", (2,), "id of /b")]
    assert len(reports.reports) == 0


def test_report_is_sent_again_until_it_is_acknowledged() -> None:
    def answer(_request: AssignReplicasToDirsRequest) -> ApiError | None:
        if len(reports.requests) == 1:
            raise RequestTimedOutError("the controller is away")
        return UnknownTopicIdError("a controller that is behind") if len(reports.requests) == 2 else None

    reports = Controller(answer)
    assert reports.run(5, (replica(0), recorded(0, ""))) == [1, 1, 1] and len(reports.reports) == 0


def test_refused_report_does_not_hold_up_the_others() -> None:
    def answer(request: AssignReplicasToDirsRequest) -> ApiError | None:
        return UnknownTopicIdError("x") if len(reports.requests) == 1 else None

    reports = Controller(answer)
    sizes = reports.run(9, *((replica(number), recorded(number, "")) for number in range(2 * REPLICAS_MAX + 1)))
    assert sizes == [REPLICAS_MAX, REPLICAS_MAX, REPLICAS_MAX, 1]
    assert reports.requests[1].replicas[0].partitions[0] == REPLICAS_MAX, "the refused ones come last"


def test_replica_that_is_gone_or_recorded_meanwhile_is_not_reported_again() -> None:
    def answer(_request: AssignReplicasToDirsRequest) -> ApiError | None:
        reports.reports.forget(TopicPartition("t", 0))
        reports.reports.check(replica(1), recorded(1, "id of /a"))
        raise RequestTimedOutError("no answer")

    reports = Controller(answer)
    assert reports.run(5, (replica(0), recorded(0, "")), (replica(1), recorded(1, ""))) == [2]


def test_replica_that_moves_while_it_is_reported_is_reported_from_where_it_is() -> None:
    moving = replica(0, "/a")

    def answer(_request: AssignReplicasToDirsRequest) -> None:
        moving.log.log_dir = "/b"
        reports.reports.check(moving, recorded(0, ""))

    reports = Controller(answer)
    assert reports.run(5, (moving, recorded(0, ""))) == [1, 1]
    assert [request.replicas[0].log_dir for request in reports.requests] == ["id of /a", "id of /b"]


def test_controller_that_refuses_for_long_is_not_asked_often() -> None:
    def answer(_request: AssignReplicasToDirsRequest) -> ApiError | None:
        raise RequestTimedOutError("no answer")

    assert len(Controller(answer).run(60, (replica(0), recorded(0, "")))) <= 40
