"""A connection's checks of an answer beyond its message."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from penstock.client.wire.connection import Connection
from penstock.client.wire.transport import Metadata
from penstock.errors import UnknownServerError
from penstock.pb import broker_pb2 as pb
from penstock.types import Endpoint, ProducerIdAndEpoch


class OneAnswer:
    """A channel that answers everything with the same bytes."""

    def __init__(self, answer: Any) -> None:
        self._raw = answer.SerializeToString()

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        return cast(bytes, self._raw)


def answered(answer: Any) -> Connection:
    return Connection(cast(Any, OneAnswer(answer)), Endpoint("127.0.0.1", 1))


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (7, 2**15)])
def test_a_producer_id_that_no_batch_can_carry_is_refused(producer_id: int, epoch: int) -> None:
    """It would end the sender in the middle of a request, and its records would never be answered."""
    connection = answered(pb.InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))
    with pytest.raises(UnknownServerError, match=f"producer id {producer_id} in epoch {epoch}"):
        asyncio.run(connection.init_producer_id(1))


def test_the_largest_producer_epoch_is_taken() -> None:
    connection = answered(pb.InitProducerIdResponse(producer_id=7, producer_epoch=2**15 - 1))
    assert asyncio.run(connection.init_producer_id(1)) == ProducerIdAndEpoch(7, 2**15 - 1)


def test_partitions_come_in_order_and_know_the_age_of_the_metadata() -> None:
    topic = pb.TopicMetadata(name="t", partitions=[pb.PartitionMetadata(partition=n) for n in (2, 0, 1)])
    found = asyncio.run(answered(pb.MetadataResponse(topics=[topic], metadata_age_ms=9)).metadata(None, 1))
    assert [p.partition for p in found.topics[0].partitions] == [0, 1, 2] and found.topics[0].metadata_age_ms == 9
