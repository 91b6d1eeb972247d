"""Promises of the produce API: no partition of a request is answered without its own ack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.apis.producing.produce import ProduceApi
from broker.network.request_channel import Request
from broker.replication.partition import Partition, PartitionReports
from broker.replication.replica_statistics import Traffic
from penstock.clock import ManualClock
from penstock.errors import KafkaStorageError
from penstock.messages.produce import PartitionRecords, ProduceRequest, ProduceResponse
from penstock.types import TopicPartition
from tests.support.machine import NOW_NS
from tests.support.partitions import TOPIC_ID, batch, flush, make_partition, state
from tests.support.sinks import CALLER, Sink
from tests.support.verification import Coordinators, held_by

FIRST, BROKEN, THIRD = (TopicPartition("t", number) for number in range(3))


def leading_alone(path: Path, reports: PartitionReports) -> Partition:
    partition = make_partition(path, reports=reports)
    partition.become_leader(state(isr=(1,)), 0)
    return partition


def test_a_disk_that_fails_in_mid_request_acks_nothing_early(tmp_path: Path) -> None:
    def failing(*_args: Any) -> Any:
        raise KafkaStorageError("EIO")

    def log_dir_failed(_partition: Partition, _error: Exception) -> None:
        partitions[FIRST].stop(KafkaStorageError("its neighbour's disk is its own"))

    reports = PartitionReports(disk_error=log_dir_failed)
    partitions = {key: leading_alone(tmp_path / str(key), reports) for key in (FIRST, BROKEN, THIRD)}
    cast(Any, partitions[BROKEN].log).append = SimpleNamespace(as_leader=failing)
    fake: Any = SimpleNamespace(get=lambda key, topic_id: partitions[key], request_flush=lambda partition: None)

    async def scenario() -> None:
        body = ProduceRequest(-1, 60_000, [PartitionRecords(key, TOPIC_ID, batch()) for key in partitions])
        request = Request("Produce", body, Sink(), CALLER, NOW_NS)
        ProduceApi(fake, fake, Traffic(), ManualClock(), held_by(Coordinators())).handle(request, body)
        assert not request.is_complete, "the third partition's disk has nothing yet"
        flush(partitions[THIRD])
        assert isinstance(request.response, ProduceResponse)
        errors = [type(result.error) for result in request.response.partitions]
        assert errors == [KafkaStorageError, KafkaStorageError, type(None)]

    asyncio.run(scenario())
