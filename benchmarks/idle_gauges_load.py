"""The client process of benchmarks/idle_gauges.py: WORK ADDRESS TOPIC DUTY SECONDS.

Keeps a node at work for DUTY of each period, with as many requests in flight as it takes, and leaves it alone for the
rest. WORK is `handlers` (look-ups by time: small messages, much to do in the API) or `network` (fetches from the page
cache: little to do in the API). Answers are not decoded, so that one processor outruns the node.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc.aio

from penstock.pb import broker_pb2 as pb
from penstock.types import MAX_TIMESTAMP

PERIOD_S = 0.5
IN_FLIGHT = 8
ANSWER_BYTES = 1 << 18
LOOK_UPS = 4
"""Look-ups in one request."""
MESSAGE_BYTES_MAX = 64 << 20

Ask = Callable[[], Awaitable[object]]


@asynccontextmanager
async def handlers(channel: grpc.aio.Channel, topic: pb.TopicMetadata) -> AsyncIterator[Ask]:
    """Look-ups of the last record's time."""
    last = await _list_offsets(channel, topic, MAX_TIMESTAMP)
    asked = pb.ListOffsetsPartition(
        topic=topic.name, topic_id=topic.topic_id, current_leader_epoch=-1, timestamp_ms=last.timestamp_ms
    )
    request = pb.ListOffsetsRequest(replica_id=-1, partitions=[asked] * LOOK_UPS).SerializeToString()
    call = channel.unary_unary("/penstock.v1.Broker/ListOffsets")

    async def ask() -> None:
        await call(request)

    yield ask


async def _list_offsets(channel: grpc.aio.Channel, topic: pb.TopicMetadata, timestamp_ms: int) -> pb.ListOffsetsResult:
    asked = pb.ListOffsetsPartition(
        topic=topic.name, topic_id=topic.topic_id, current_leader_epoch=-1, timestamp_ms=timestamp_ms
    )
    request = pb.ListOffsetsRequest(replica_id=-1, partitions=[asked]).SerializeToString()
    answer = pb.ListOffsetsResponse.FromString(await channel.unary_unary("/penstock.v1.Broker/ListOffsets")(request))
    return answer.partitions[0]


@asynccontextmanager
async def network(channel: grpc.aio.Channel, topic: pb.TopicMetadata) -> AsyncIterator[Ask]:
    """Fetches of the same records, a stream for each of those in flight."""
    wanted = pb.FetchPartition(
        topic=topic.name,
        topic_id=topic.topic_id,
        fetch_offset=0,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        max_bytes=ANSWER_BYTES,
    )
    request = pb.FetchRequest(replica_id=-1, broker_epoch=-1, max_bytes=ANSWER_BYTES, partitions=[wanted])
    data = request.SerializeToString()
    calls = [channel.stream_stream("/penstock.v1.Broker/Fetch")() for _ in range(IN_FLIGHT)]

    async def ask() -> None:
        call = calls.pop()
        try:
            await call.write(data)
            await call.read()
        finally:
            calls.append(call)

    yield ask
    for call in calls:
        call.cancel()


WORKS = {"handlers": handlers, "network": network}


async def work(name: str, address: str, topic: str, duty: float, seconds: float) -> int:
    """Keeps the node at work; returns how many requests were answered."""
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        request = pb.MetadataRequest(topics=[topic]).SerializeToString()
        answer = await channel.unary_unary("/penstock.v1.Broker/Metadata")(request)
        (known,) = pb.MetadataResponse.FromString(answer).topics
        async with WORKS[name](channel, known) as ask:
            return await _pulses(ask, duty, seconds)


async def _pulses(ask: Ask, duty: float, seconds: float) -> int:
    began = time.monotonic()
    asked = 0
    while (now := time.monotonic()) < began + seconds:
        period_s = now - (now - began) % PERIOD_S

        async def keep_asking(until_s: float = period_s + duty * PERIOD_S) -> int:
            count = 0
            while time.monotonic() < until_s:
                await ask()
                count += 1
            return count

        asked += sum(await asyncio.gather(*(keep_asking() for _ in range(IN_FLIGHT))))
        await asyncio.sleep(max(0.0, period_s + PERIOD_S - time.monotonic()))
    return asked


if __name__ == "__main__":
    _, what, where, named, share, duration = sys.argv
    sys.stdout.write(f"{asyncio.run(work(what, where, named, float(share), float(duration)))}\n")
