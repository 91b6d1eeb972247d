"""The broker's own wire, without our client's care: what a broken or foreign client could send.

Only topic ids are filled in, from the node's own metadata, where the topic exists and the test gave none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc.aio

from penstock.pb import broker_pb2 as pb
from tests.support.grpc_stub import Stub


async def fill_topic_ids(channel: grpc.aio.Channel, requests: Sequence[pb.ProduceRequest | pb.FetchRequest]) -> None:
    """The id that the node at the other end has for the topic of each partition that names none."""
    parts = [part for request in requests for part in request.partitions if not part.topic_id]
    if parts:
        wanted = pb.MetadataRequest(topics=sorted({part.topic for part in parts}))
        answer = await Stub(channel, "Broker").Metadata(wanted)
        known = {topic.name: topic.topic_id for topic in answer.topics}
        for part in parts:
            part.topic_id = known[part.topic]


def produce(address: str, *requests: pb.ProduceRequest) -> list[pb.ProduceResponse]:
    """The answers to these requests, sent on one stream."""

    async def main() -> list[pb.ProduceResponse]:
        async with grpc.aio.insecure_channel(address) as channel:
            await fill_topic_ids(channel, requests)
            call = Stub(channel, "Broker").Produce()
            answers = []
            for request in requests:
                await call.write(request)
                answers.append(await call.read())
            await call.done_writing()
            return answers

    return asyncio.run(main())


def fetch(address: str, *requests: pb.FetchRequest) -> list[pb.FetchResponse]:
    """The answers to these requests, sent on one stream."""

    async def main() -> list[pb.FetchResponse]:
        async with grpc.aio.insecure_channel(address) as channel:
            await fill_topic_ids(channel, requests)
            call = Stub(channel, "Broker").Fetch()
            answers = []
            for request in requests:
                await call.write(request)
                answers.append(await call.read())
            await call.done_writing()
            return answers

    return asyncio.run(main())


def records(topic: str, partition: int, data: bytes, acks: int = -1, topic_id: str = "") -> pb.ProduceRequest:
    """A produce request for one partition."""
    part = pb.PartitionRecords(topic=topic, partition=partition, topic_id=topic_id, records=data)
    return pb.ProduceRequest(correlation_id=7, acks=acks, timeout_ms=30_000, partitions=[part])


def position(topic: str, offset: int, partition: int = 0, **fields: int) -> pb.FetchRequest:
    """A consumer's fetch from one position, which does not wait."""
    wanted = pb.FetchPartition(
        topic=topic,
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=fields.pop("current_leader_epoch", -1),
        last_fetched_epoch=fields.pop("last_fetched_epoch", -1),
        max_bytes=1 << 20,
    )
    return pb.FetchRequest(
        correlation_id=8,
        replica_id=fields.pop("replica_id", -1),
        broker_epoch=-1,
        max_bytes=1 << 20,
        partitions=[wanted],
    )


def codes(answers: Sequence[pb.ProduceResponse | pb.FetchResponse]) -> list[int]:
    """The error code of the first partition of each answer, or of the whole."""
    return [a.error.code or (a.partitions[0].error.code if a.partitions else 0) for a in answers]
