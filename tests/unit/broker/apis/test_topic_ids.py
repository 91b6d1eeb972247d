"""Promises of every API that names a partition: it answers for exactly the topic that is meant, and for no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from broker.apis.delete_records import DeleteRecordsApi
from broker.apis.fetch import FetchApi
from broker.apis.fetch_sessions.fetch_session import FetchSession
from broker.apis.list_offsets import ListOffsetsApi
from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from broker.apis.producing.produce import ProduceApi
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.move_throttle import MoveThrottle
from penstock.clock import ManualClock
from penstock.errors import ApiError, InvalidRequestError, UnknownTopicIdError
from penstock.messages.fetch import FetchPartition, FetchRequest
from penstock.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    EpochPartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from penstock.messages.produce import PartitionRecords, ProduceRequest
from penstock.types import LATEST_TIMESTAMP
from storage.log_config import LogConfig
from tests.support.machine import NOW_NS
from tests.support.memory import unlimited
from tests.support.partitions import PARTITION, TOPIC_ID, batch, flush
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER, WaitedSink
from tests.support.stepped_io import SteppedIo
from tests.support.upkeep_stage import ME, Stage, stage
from tests.support.verification import Coordinators, held_by

FOLLOWER = 2


class Api(Protocol):
    def handle(self, request: Request, body: Any) -> None: ...


def fetch(topic_id: str, replica_id: int) -> FetchRequest:
    return FetchRequest(replica_id, 0, 0, 1, 1 << 20, [FetchPartition(PARTITION, topic_id, 0, 5)], [], "cluster")


REQUESTS: dict[str, tuple[Callable[[ReplicaParts], Api], Callable[[str], Any]]] = {
    "produce": (
        lambda parts: ProduceApi(parts.hosted, parts.durability, parts.traffic, ManualClock(), held_by(Coordinators())),
        lambda id_: ProduceRequest(1, 0, [PartitionRecords(PARTITION, id_, batch())]),
    ),
    "fetch": (lambda parts: FetchApi(lambda: parts.isrs.registered_epochs, "cluster"), lambda id_: fetch(id_, -1)),
    "replica fetch": (
        lambda parts: FetchApi(lambda: parts.isrs.registered_epochs, "cluster"),
        lambda id_: fetch(id_, FOLLOWER),
    ),
    "list offsets": (
        lambda parts: ListOffsetsApi(parts.hosted, SteppedIo(), FailedRequests(pytest.fail).fail, lambda: 0),
        lambda id_: ListOffsetsRequest((ListOffsetsPartition(PARTITION, id_, LATEST_TIMESTAMP),)),
    ),
    "offset for leader epoch": (
        lambda parts: OffsetForLeaderEpochApi(parts.hosted),
        lambda id_: OffsetForLeaderEpochRequest((EpochPartition(PARTITION, id_, 5),)),
    ),
    "delete records": (
        lambda parts: DeleteRecordsApi(parts.hosted, parts.durability.make_log_start_durable),
        lambda id_: DeleteRecordsRequest((DeleteRecordsPartition(PARTITION, id_, 1),), 0),
    ),
}


async def error_of(at: Stage, row: str, topic_id: str) -> ApiError | None:
    """The error that the API answers for the partition, with one record in it."""
    make_api, make_body = REQUESTS[row]
    count, fail, sink = at.replicas.traffic.count_out, FailedRequests(pytest.fail).fail, WaitedSink()
    io, throttle, readers = SteppedIo(), MoveThrottle(), leaders_alone()
    session = FetchSession(at.replicas.get, at.clock, 1 << 20, count, unlimited(), fail, io, throttle, readers)
    request = Request(row, make_body(topic_id), sink, CALLER, NOW_NS, session)
    make_api(at.replicas.parts).handle(request, request.body)
    flush(at.partition)
    await sink.answered.wait()
    session.close()
    results: list[Any] = getattr(request.response, "partitions", request.response)  # type: ignore[arg-type]
    return results[0].error if results else None


@pytest.mark.parametrize("row", REQUESTS)
def test_a_partition_is_named_by_its_topics_id(row: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            at.replicas.brokers_changed({ME: 0, FOLLOWER: 0}, frozenset({ME, FOLLOWER}))
            at.write(1)
            missing = await error_of(at, row, "")
            assert isinstance(missing, InvalidRequestError) and "take it from Metadata" in str(missing)
            assert isinstance(await error_of(at, row, "of-a-deleted-topic"), UnknownTopicIdError)
            assert (at.partition.log.log_start_offset, at.partition.log.log_end_offset) == (0, 1)
            known = await error_of(at, row, TOPIC_ID)
            assert not isinstance(known, InvalidRequestError | UnknownTopicIdError)

    asyncio.run(main())


def test_a_topic_that_is_not_here_has_no_partition_here(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            at.replicas.remove(PARTITION, TOPIC_ID)
            with pytest.raises(UnknownTopicIdError, match="refresh the metadata"):
                at.replicas.get(PARTITION, TOPIC_ID)
            with pytest.raises(InvalidRequestError):
                at.replicas.get(PARTITION, "")

    asyncio.run(main())
