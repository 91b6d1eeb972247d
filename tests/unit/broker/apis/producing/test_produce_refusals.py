"""Promises of every produce error: it says that nothing was written only where that is so; the client counts by it."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.apis.producing.produce import ProduceApi
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.replication.hosting.assignment import TopicSettings
from metadata.internal_topics import CONSUMER_OFFSETS
from penstock.errors import ERRORS, ApiError, InvalidTopicError, NetworkError, RequestTimedOutError
from penstock.messages.produce import PartitionProduceResult, PartitionRecords, ProduceRequest
from penstock.types import TopicPartition
from storage.log_config import LogConfig
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, state
from tests.support.sinks import CALLER, WaitedSink
from tests.support.upkeep_stage import ME, Stage, stage
from tests.support.verification import Coordinators, held_by

BOTH = (ME, 2)


def asked(
    acks: int, timeout_ms: int = 60_000, key: TopicPartition = PARTITION, id_: str = TOPIC_ID, records: bytes = b""
) -> Request:
    body = ProduceRequest(acks, timeout_ms, [PartitionRecords(key, id_, records or batch())])
    return Request("Produce", body, WaitedSink(), CALLER, NOW_NS)


def handle(at: Stage, request: Request) -> None:
    body: Any = request.body
    parts = at.replicas.parts
    ProduceApi(parts.hosted, parts.durability, parts.traffic, at.clock, held_by(Coordinators())).handle(request, body)


async def error_of(request: Request) -> ApiError:
    sink: Any = request.sink
    await asyncio.wait_for(sink.answered.wait(), 60)
    response: Any = request.response
    (result,) = response.partitions
    assert isinstance(result, PartitionProduceResult) and result.error is not None
    return result.error


def lead(at: Stage, isr: tuple[int, ...], min_isr: int = 1, epoch: int = 1) -> None:
    settings = TopicSettings(LogConfig(), min_isr)
    at.replicas.apply(PARTITION, TOPIC_ID, state(ME, 5, epoch, isr, BOTH), settings, NOBODY)


def follow(at: Stage) -> None:
    at.replicas.apply(PARTITION, TOPIC_ID, state(2, 6, 2, BOTH, BOTH), TopicSettings(LogConfig(), 1), NOBODY)


ENDINGS: dict[str, tuple[Callable[[Stage], object], tuple[int, ...]]] = {
    "another leads": (follow, (1, -1)),
    "the topic is deleted": (lambda at: at.replicas.remove(PARTITION, TOPIC_ID), (1, -1)),
    "the disk fails": (lambda at: at.replicas.failures.partition_failed(at.partition, OSError(5, "EIO")), (1, -1)),
    "the log dir fails": (
        lambda at: at.replicas.failures.directory_failed(at.partition.log.log_dir, OSError(5, "EIO")),
        (1, -1),
    ),
    "the isr is too small": (lambda at: lead(at, (ME,), 2, 2), (-1,)),
    "the time is up": (lambda at: None, (1, -1)),
}


@pytest.mark.parametrize("row", ENDINGS)
def test_records_that_were_appended_are_never_said_not_to_be_written(row: str, tmp_path: Path) -> None:
    end, acks_values = ENDINGS[row]

    async def main(acks: int) -> None:
        async with stage(tmp_path / str(acks), LogConfig()) as at:
            lead(at, BOTH, 2)
            at.replicas.parts.durability.forget(at.partition)  # it hears of no flush, so no ack is due
            request = asked(acks, 1 if row == "the time is up" else 60_000)
            handle(at, request)
            assert at.partition.log.log_end_offset == 1 and not request.is_complete
            end(at)
            error = await error_of(request)
            assert not error.nothing_written and error.retriable, error

    for acks in acks_values:
        asyncio.run(main(acks))


REFUSALS: dict[str, tuple[Callable[[Stage], object], Callable[[], Request]]] = {
    "no leader": (follow, lambda: asked(-1)),
    "another topic": (lambda at: None, lambda: asked(-1, id_="another")),
    "no such partition": (lambda at: None, lambda: asked(-1, key=TopicPartition("t", 7))),
    "the isr is too small": (lambda at: lead(at, (ME,), 2, 2), lambda: asked(-1)),
    "a topic of the cluster's own": (lambda at: None, lambda: asked(-1, key=TopicPartition(CONSUMER_OFFSETS, 0))),
    "a bad batch": (lambda at: None, lambda: asked(-1, records=batch()[:-1] + b"?")),
}


@pytest.mark.parametrize("row", REFUSALS)
def test_a_refusal_says_that_nothing_was_written(row: str, tmp_path: Path) -> None:
    begin, ask = REFUSALS[row]

    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            lead(at, BOTH, 2)
            begin(at)
            request = ask()
            handle(at, request)
            assert (await error_of(request)).nothing_written
            assert at.partition.log.log_end_offset == 0
            response: Any = request.response
            is_here = row not in {"another topic", "no such partition", "a topic of the cluster's own"}
            assert response.partitions[0].log_start_offset == (0 if is_here else -1), "Java decides by it (KIP-360)"

    asyncio.run(main())


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_no_client_writes_to_a_topic_of_the_clusters_own_though_it_be_led_here(acks: int, tmp_path: Path) -> None:
    async def main() -> None:
        key = TopicPartition(CONSUMER_OFFSETS, 0)
        async with stage(tmp_path, LogConfig()) as at:
            at.replicas.apply(key, "offsets", state(ME, 5, 1, (ME,), (ME,)), TopicSettings(LogConfig(), 1), NOBODY)
            request = asked(acks, key=key, id_="offsets")
            handle(at, request)
            (failure,) = request.failures
            assert isinstance(failure, InvalidTopicError) and failure.nothing_written
            response: Any = request.response
            (result,) = response.partitions if acks else response.unanswered
            assert result.error is failure and (acks or not response.partitions)
            assert at.replicas.parts.hosted.get(key, "offsets").log.log_end_offset == 0

    asyncio.run(main())


@pytest.mark.parametrize("row", [*REFUSALS, "given up"])
def test_the_records_of_a_refused_request_are_freed_with_it(row: str, tmp_path: Path) -> None:
    """At once: what only the cycle collector frees, a quiet node keeps for hours."""
    begin, ask = REFUSALS.get(row, REFUSALS["no leader"])

    async def refused(at: Stage, request: Request) -> None:
        request.is_abandoned = row == "given up"
        try:
            handle(at, request)
        except ApiError as error:
            FailedRequests(lambda fatal: None).fail(request, error)
        assert request.failures

    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            lead(at, BOTH, 2)
            begin(at)
            request = ask()
            records = records_of(request)
            gc.disable()
            try:
                await refused(at, request)
                del request
                assert sys.getrefcount(records) == 2, "`records` here, and the argument of the call"
            finally:
                gc.enable()

    asyncio.run(main())


def records_of(request: Request) -> bytes:
    body: Any = request.body
    found: bytes = body.partitions[0].records
    return found


@pytest.mark.parametrize(("acks", "appended"), [(0, 1), (1, 0), (-1, 0)])
def test_a_request_that_its_client_has_given_up_is_not_appended(acks: int, appended: int, tmp_path: Path) -> None:
    """With acks=0 the client goes as soon as it has sent: that is no giving up."""

    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            late, left = asked(acks, timeout_ms=1_000), asked(acks, timeout_ms=1_000)
            late.dequeued_ns = late.received_ns + 1_001 * 1_000_000
            left.is_abandoned = True
            for request, error in ((late, RequestTimedOutError), (left, NetworkError)):
                if appended:
                    handle(at, request)
                else:
                    with pytest.raises(error, match="was not appended"):
                        handle(at, request)
            assert at.partition.log.log_end_offset == 2 * appended

    asyncio.run(main())


OF_GROUPS = {
    "COORDINATOR_LOAD_IN_PROGRESS",
    "FENCED_INSTANCE_ID",
    "FENCED_MEMBER_EPOCH",
    "GROUP_ID_NOT_FOUND",
    "GROUP_MAX_SIZE_REACHED",
    "GROUP_SUBSCRIBED_TO_TOPIC",
    "ILLEGAL_GENERATION",
    "INCONSISTENT_GROUP_PROTOCOL",
    "INVALID_COMMIT_OFFSET_SIZE",
    "INVALID_GROUP_ID",
    "INVALID_REGULAR_EXPRESSION",
    "INVALID_SESSION_TIMEOUT",
    "MEMBER_ID_REQUIRED",
    "NON_EMPTY_GROUP",
    "NOT_COORDINATOR",
    "OFFSET_METADATA_TOO_LARGE",
    "REBALANCE_IN_PROGRESS",
    "STALE_MEMBER_EPOCH",
    "UNKNOWN_MEMBER_ID",
    "UNRELEASED_INSTANCE_ID",
    "UNSUPPORTED_ASSIGNOR",
}
"""A coordinator checks everything before its first record. What it cannot tell after an append is
COORDINATOR_NOT_AVAILABLE, which is not among them."""

OF_TRANSACTIONS = {
    "CONCURRENT_TRANSACTIONS",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TRANSACTION_TIMEOUT",
    "INVALID_TXN_STATE",
    "OPERATION_NOT_ATTEMPTED",
    "PRODUCER_FENCED",
    "TRANSACTIONAL_ID_NOT_FOUND",
    "TRANSACTION_ABORTABLE",
    "TRANSACTION_COORDINATOR_FENCED",
}
"""A coordinator of transactions does so, too, and a leader checks a batch's transaction before it appends the batch."""


OF_VOTERS = {"CONTROLLER_ID_NOT_REGISTERED", "DUPLICATE_VOTER", "VOTER_NOT_FOUND"}
"""A change of the quorum's voters is judged before its record is appended."""

OF_SECURITY = {
    "AUTHENTICATION_REQUIRED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "ILLEGAL_SASL_STATE",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
}
"""Who asks, and whether it may, is settled before a handler has the request or that part of it."""


def test_an_error_says_nothing_was_written_only_by_this_list() -> None:
    """A new error leaves the outcome open until somebody has made sure that it does not."""
    known = {error.kafka_name for error in ERRORS.values() if error.nothing_written}
    assert known == OF_GROUPS | OF_TRANSACTIONS | OF_SECURITY | OF_VOTERS | {
        "CORRUPT_MESSAGE",
        "FENCED_LEADER_EPOCH",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_RECORD",
        "INVALID_REQUEST",
        "INVALID_REQUIRED_ACKS",
        "INVALID_TIMESTAMP",
        "INVALID_TOPIC_EXCEPTION",
        "LEADER_NOT_AVAILABLE",
        "MESSAGE_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_LEADER_OR_FOLLOWER",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "POLICY_VIOLATION",
        "RECORD_LIST_TOO_LARGE",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_PRODUCER_ID",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "UNSUPPORTED_VERSION",
    }
