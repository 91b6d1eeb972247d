"""Measures the cost of `compression.type`: `python -m benchmarks.recompression [--quick]` prints JSON lines.

convert  One core, CPU time: checking a produced batch, and checking it and bringing it into the topic's codec.
append   The same for a whole append to a log, with `producer`, where nothing is converted: beside an append that does
         not even ask. The goal is a ratio of 0.95: what the machine's other
         work leaves of 1.0.
node     A real node, wall time: one stream sends batches to a topic of each type as fast as they are acked, while
         another sends one small batch after the other to a topic that converts nothing. The second one's latency says
         whether anybody waits for somebody else's codec.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import grpc.aio

from penstock import Admin
from penstock.pb import broker_pb2 as pb
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.testing import Cluster
from penstock.threads import SystemThreads
from penstock.types import TopicPartition
from storage.append.append_origin import AppendOrigin
from storage.append.batch_validation import check_produced
from storage.append.recompression import Converted, is_due, prepared
from storage.disk.file_system import Bytes, OsFileSystem
from storage.log import log_append as log_module
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig

TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
SOURCES = (Codec.NONE, Codec.LZ4, Codec.GZIP)
NOW_MS = 1_700_000_000_000
PRODUCER_GOAL = 0.95
IN_FLIGHT = 8
PREPARED = "prepared"
ROUNDS = 15


def values(count: int) -> list[bytes]:
    """Records of 100 bytes that compress about as well as log lines do."""
    source = random.Random(7)
    words = [source.randbytes(3).hex().encode() for _ in range(2_000)]
    return [b" ".join(source.choices(words, k=15))[:100].ljust(100, b".") for _ in range(count)]


def row(**figures: object) -> None:
    print(json.dumps({"benchmark": "recompression", **figures}), flush=True)


def best_s(work: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """The least CPU time of each; they take turns."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, run in work.items():
            began = time.process_time()
            for _ in range(times):
                run()
            best[name] = min(best[name], (time.process_time() - began) / times)
    return best


def convert(quick: bool) -> None:
    """Prints the rows of `convert`."""
    for records in (100, 1_000, 9_000):
        plain = build_batch(values(records), timestamps_ms=NOW_MS)
        for source in SOURCES:
            batch = build_batch(values(records), timestamps_ms=NOW_MS, codec=source)
            work: dict[str, Callable[[], object]] = {}
            for kind in TYPES:
                config = LogConfig(compression_type=kind)
                work[kind] = lambda batch=batch, config=config: prepared(batch, config, NOW_MS)  # type: ignore[misc]
            config = LogConfig()
            work["only checked"] = lambda batch=batch, config=config: check_produced(batch, config, NOW_MS)  # type: ignore[misc]
            work["asked before the queue"] = lambda batch=batch, config=config: is_due(batch, config)  # type: ignore[misc]
            found = best_s(work, 1 if quick or records > 1_000 else 20)
            for kind, seconds in found.items():
                row(
                    section="convert",
                    records=records,
                    source=source.name.lower(),
                    compression_type=kind,
                    us=round(seconds * 1e6, 1),
                    mb_per_s=round(len(plain) / seconds / 1e6),
                )


def append(quick: bool) -> bool:
    """Prints the rows of `append`; whether `producer` costs nothing."""

    def unasked(records: Bytes, config: LogConfig, now_ms: int, *, origin: AppendOrigin) -> Converted:
        return Converted(*check_produced(records, config, now_ms, origin=origin), 0)

    met = True
    for records in (10, 100, 1_000):
        batch = build_batch(values(records), timestamps_ms=NOW_MS, codec=Codec.LZ4)
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
            log = Log.create(
                OsFileSystem(),
                f"{directory}/t-0",
                TopicPartition("t", 0),
                LogConfig(),
                LogOptions(SystemThreads(), "T" * 22),
            )

            def run(how: Callable[..., Converted], log: Log = log, batch: bytes = batch) -> None:
                setattr(log_module, PREPARED, how)
                for _ in range(20 if quick else 500):
                    log.append.as_leader(batch, 0, NOW_MS)

            found = best_s({"before": lambda: run(unasked), "after": lambda: run(prepared)}, 1)
            log.close()
        setattr(log_module, PREPARED, prepared)
        ratio = found["before"] / found["after"]
        met &= ratio >= PRODUCER_GOAL or quick
        row(
            section="append",
            records=records,
            compression_type="producer",
            us=round(found["after"] * 1e6 / (20 if quick else 500), 1),
            ratio=round(ratio, 3),
            goal=PRODUCER_GOAL,
        )
    return met


def request(topic: str, topic_id: str, records: bytes) -> pb.ProduceRequest:
    part = pb.PartitionRecords(topic=topic, partition=0, topic_id=topic_id, records=records)
    return pb.ProduceRequest(correlation_id=1, acks=1, timeout_ms=30_000, partitions=[part])


def produce_stream(channel: grpc.aio.Channel) -> grpc.aio.StreamStreamCall:
    method = channel.stream_stream(
        "/penstock.v1.Broker/Produce",
        request_serializer=pb.ProduceRequest.SerializeToString,
        response_deserializer=pb.ProduceResponse.FromString,
    )
    return method()


async def send_all(address: str, message: pb.ProduceRequest, count: int) -> float:
    """Seconds until all are acked; IN_FLIGHT at a time."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = produce_stream(channel)
        began = time.perf_counter()
        for number in range(count + IN_FLIGHT):
            if number < count:
                await call.write(message)
            if number >= IN_FLIGHT:
                answer = await call.read()
                if answer.partitions[0].error.code:
                    raise SystemExit(f"refused: {answer}")
        seconds = time.perf_counter() - began
        await call.done_writing()
        return seconds


async def neighbour(address: str, message: pb.ProduceRequest, latencies_ms: list[float]) -> None:
    """One small produce after the other, until cancelled."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = produce_stream(channel)
        while True:
            began = time.perf_counter()
            await call.write(message)
            await call.read()
            latencies_ms.append((time.perf_counter() - began) * 1_000)


async def beside(
    address: str, topic_ids: dict[str, str], topic: str, batch: bytes, count: int
) -> tuple[float, list[float]]:
    small = request("small", topic_ids["small"], build_batch([b"x"], timestamps_ms=round(time.time() * 1_000)))
    latencies_ms: list[float] = []
    other = asyncio.ensure_future(neighbour(address, small, latencies_ms))
    seconds = await send_all(address, request(topic, topic_ids[topic], batch), count)
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    return seconds, latencies_ms


def node(quick: bool) -> None:
    """Prints the rows of `node`. flush.policy=os: the disk's speed is not what is asked."""
    records, count = 9_000, 20 if quick else 100
    plain = build_batch(values(records), timestamps_ms=round(time.time() * 1_000))
    with Cluster(nodes=1, config={"flush.policy": "os"}) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("small")
            for kind in TYPES:
                admin.create_topic(kind, config={"compression.type": kind})
            topic_ids = {name: admin.describe_topic(name).topic_id for name in ("small", *TYPES)}
        for source in (Codec.NONE, Codec.LZ4):
            batch = build_batch(values(records), timestamps_ms=round(time.time() * 1_000), codec=source)
            before = 0.0
            for kind in TYPES:
                asyncio.run(beside(cluster.endpoint(0), topic_ids, kind, batch, 5))
                seconds, latencies_ms = asyncio.run(beside(cluster.endpoint(0), topic_ids, kind, batch, count))
                mb_per_s = len(plain) * count / seconds / 1e6
                before = before or mb_per_s
                ordered = sorted(latencies_ms)
                row(
                    section="node",
                    batch_mb=round(len(plain) / 1e6, 2),
                    source=source.name.lower(),
                    compression_type=kind,
                    mb_per_s=round(mb_per_s),
                    ratio_to_producer=round(mb_per_s / before, 2),
                    neighbour_p50_ms=round(statistics.median(ordered), 2),
                    neighbour_p99_ms=round(ordered[int(len(ordered) * 0.99)], 2),
                )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recompression")
    parser.add_argument("--quick", action="store_true", help="to see that it runs; the figures mean little")
    quick = parser.parse_args().quick
    convert(quick)
    met = append(quick)
    node(quick)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
