"""Decisions of a Penstock quorum from one process: BOOTSTRAP TOTAL CLIENTS. Prints one JSON object.

A decision is one metadata record: a client sets `retention.ms` of a topic of its own, and the answer comes when a
majority of the voters has the record on its disk. The names of the topics are long, so that the record has some 256
bytes, as the puts of etcd beside it. Each of the CLIENTS has one change on its way at a time. They share one
connection to each broker, and take turns at the brokers; a broker that is not the active controller forwards.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count

import grpc.aio

from penstock import AsyncAdmin
from penstock.pb.configs_pb2 import AlterConfigsRequest, AlterConfigsResponse

PATH = "/penstock.v1.Broker/AlterConfigs"
NAME_CHARS = 150
TIMEOUT_S = 10.0
WARM_SHARE = 10
"""A tenth as many decisions come first, and do not count."""


def topic_of(client: int) -> str:
    """The topic of one client."""
    return f"decisions-{client}-".ljust(NAME_CHARS, "x")


def change_of(topic: str, number: int) -> AlterConfigsRequest:
    """Another value each time: a change to what is already so is no record."""
    request = AlterConfigsRequest(timeout_ms=int(1_000 * TIMEOUT_S))
    resource = request.resources.add(resource_type="topic", resource_name=topic)
    resource.changes.add(key="retention.ms", value=str(600_000_000 + number))
    return request


async def decide(bootstrap: list[str], total: int, clients: int) -> dict[str, float]:
    """Decisions a second, and the latency of one in milliseconds."""
    topics = [topic_of(client) for client in range(clients)]
    async with AsyncAdmin(",".join(bootstrap)) as admin:
        there = await admin.list_topics()
        for topic in topics:
            if topic not in there:
                await admin.create_topic(topic, 1, 1)
    channels = [grpc.aio.insecure_channel(address) for address in bootstrap]
    calls = [
        channel.unary_unary(
            PATH,
            request_serializer=AlterConfigsRequest.SerializeToString,
            response_deserializer=AlterConfigsResponse.FromString,
        )
        for channel in channels
    ]
    numbers, failed = count(time.time_ns() % 10**9), 0

    async def decide_once(client: int) -> None:
        nonlocal failed
        answer = await calls[client % len(calls)](change_of(topics[client], next(numbers)), timeout=TIMEOUT_S)
        failed += any(result.HasField("error") for result in answer.resources)

    row = await timed(decide_once, total, clients)
    for channel in channels:
        await channel.close()
    return row | {"failed": failed}


async def timed(ask: Callable[[int], Awaitable[None]], total: int, clients: int) -> dict[str, float]:
    """Asks TOTAL times, CLIENTS at a time, after a warm-up: how many a second, and the latency in milliseconds."""

    async def one_client(client: int, share: int, latencies: list[float]) -> None:
        for _ in range(share):
            began = time.perf_counter()
            await ask(client)
            latencies.append(time.perf_counter() - began)

    async def all_clients(share: int) -> tuple[float, list[float]]:
        latencies: list[float] = []
        began = time.perf_counter()
        await asyncio.gather(*(one_client(client, share, latencies) for client in range(clients)))
        return time.perf_counter() - began, sorted(latencies)

    share = max(total // clients, 1)
    await all_clients(max(share // WARM_SHARE, 1))
    seconds, latencies = await all_clients(share)
    return {
        "decisions": len(latencies),
        "per_s": round(len(latencies) / seconds, 1),
        "p50_ms": round(1_000 * latencies[len(latencies) // 2], 3),
        "p99_ms": round(1_000 * latencies[len(latencies) * 99 // 100], 3),
    }


def main() -> None:
    """Measures once."""
    bootstrap, total, clients = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(asyncio.run(decide(bootstrap, total, clients))))


if __name__ == "__main__":
    main()
