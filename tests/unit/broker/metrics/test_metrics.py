"""Promises of the figures at /metrics: every error that a client is answered is counted under its name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.list_offsets import ListOffsetsApi
from broker.apis.producing.produce import ProduceApi
from broker.metrics.metrics import Metrics
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from penstock.errors import InvalidRequiredAcksError, ResourceExhaustedError
from penstock.messages.offsets import ListOffsetsPartition, ListOffsetsRequest
from penstock.messages.produce import PartitionRecords, ProduceRequest
from penstock.types import LATEST_TIMESTAMP, TopicPartition
from storage.log_config import LogConfig
from tests.support.machine import NOW_NS
from tests.support.partitions import PARTITION, TOPIC_ID, batch, flush
from tests.support.sinks import CALLER, Sink
from tests.support.stepped_io import SteppedIo
from tests.support.upkeep_stage import Stage, stage
from tests.support.verification import Coordinators, held_by

ELSEWHERE = TopicPartition("t", 7)


def errors(metrics: Metrics) -> dict[tuple[str, str], float]:
    """How often each API has answered each error, where it has."""
    return {
        (sample.labels["api"], sample.labels["error"]): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "penstock_request_errors_total" and sample.value
    }


def answered(metrics: Metrics, at: Stage, api: Any, name: str, body: Any) -> None:
    request = Request(name, body, Sink(), CALLER, NOW_NS)
    api.handle(request, body)
    flush(at.partition)
    assert request.is_complete
    metrics.request_sent(request, request.completed_ns)


@pytest.mark.parametrize("acks", [0, 1])
def test_each_refused_partition_is_an_error_by_name(acks: int, tmp_path: Path) -> None:
    async def main() -> None:
        metrics = Metrics(lambda: ())
        async with stage(tmp_path, LogConfig()) as at:
            parts = [PartitionRecords(key, TOPIC_ID, batch()) for key in (PARTITION, ELSEWHERE, ELSEWHERE)]
            parts.append(PartitionRecords(PARTITION, TOPIC_ID, b"no batch"))
            replicas = at.replicas.parts
            produce = ProduceApi(
                replicas.hosted, replicas.durability, replicas.traffic, at.clock, held_by(Coordinators())
            )
            answered(metrics, at, produce, "Produce", ProduceRequest(acks, 60_000, parts))
            asked = (ListOffsetsPartition(ELSEWHERE, "", LATEST_TIMESTAMP),)
            list_offsets = ListOffsetsApi(
                replicas.hosted, SteppedIo(), FailedRequests(pytest.fail).fail, at.clock.now_ms
            )
            answered(metrics, at, list_offsets, "ListOffsets", ListOffsetsRequest(asked))
        assert errors(metrics) == {
            ("Produce", "UNKNOWN_TOPIC_ID"): 2,
            ("Produce", "CORRUPT_MESSAGE"): 1,
            ("ListOffsets", "INVALID_REQUEST"): 1,
        }

    asyncio.run(main())


def test_an_error_of_a_whole_request_is_one_and_what_comes_after_it_none() -> None:
    metrics = Metrics(lambda: ())
    for error in (InvalidRequiredAcksError(), ResourceExhaustedError(), None):
        request = Request("Produce", None, Sink(), CALLER, NOW_NS)
        if error is not None:
            request.fail(error)
        request.complete("fine", ())
        metrics.request_sent(request, request.completed_ns)
    assert errors(metrics) == {("Produce", "INVALID_REQUIRED_ACKS"): 1, ("Produce", "THROTTLING_QUOTA_EXCEEDED"): 1}
    assert (
        metrics.registry.get_sample_value("penstock_requests_total", {"api": "Produce", "listener_type": "GRPC"}) == 3
    )


def test_nothing_is_exported_but_what_was_counted_and_timed() -> None:
    metrics = Metrics(lambda: ())
    request = Request("Produce", None, Sink(), CALLER, NOW_NS)
    request.complete("fine", ())
    metrics.request_sent(request, request.completed_ns)
    names = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    assert "penstock_requests_total" in names
    assert not [name for name in names if name.endswith("_created")]
