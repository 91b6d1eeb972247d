"""How fast one Python process produces and consumes: `python benchmarks/client.py [--bootstrap HOST:PORT] [...]`.

Without --bootstrap a fake cluster runs in a process of its own, which shows what the client itself costs; with it,
the same work goes to a real one. Every figure is records a second of wall time until the last ack (or record), and
beside it the CPU seconds of this process per million records.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PARTITIONS = 6


def serve(pipe: Any, nodes: int) -> None:
    """A fake cluster until the other end closes the pipe."""
    from tests.support.fake_broker import FakeCluster

    with FakeCluster(nodes) as cluster:
        cluster.keep_requests = False
        cluster.on_produce = None
        pipe.send(cluster.bootstrap)
        pipe.recv()


def measure(name: str, count: int, work: Callable[[], None]) -> dict[str, Any]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    figures = {"name": name, "records_per_s": round(count / wall), "cpu_s_per_million": round(cpu / count * 1e6, 3)}
    print(f"{name:<22}{figures['records_per_s']:>12,} records/s {figures['cpu_s_per_million']:>8} CPU s per million")
    return figures


def produce(bootstrap: str, args: argparse.Namespace, topic: str) -> list[dict[str, Any]]:
    from penstock import Producer

    value = os.urandom(args.size // 2).hex().encode()[: args.size].ljust(args.size, b"x")
    keys = [b"key-%d" % number for number in range(1_000)]
    options = {"acks": args.acks, "linger_ms": args.linger, "batch_size": args.batch, "compression_type": args.codec}

    def send_each() -> None:
        with Producer(bootstrap, **options) as producer:
            send = producer.send
            for _ in range(args.records):
                send(topic, value=value)
            producer.flush()
            print(producer.statistics())

    def send_keyed() -> None:
        with Producer(bootstrap, **options) as producer:
            send = producer.send
            for number in range(args.records):
                send(topic, value=value, key=keys[number % 1_000])

    def send_many() -> None:
        with Producer(bootstrap, **options) as producer:
            future = producer.send_many(topic, [value] * args.records)
            producer.flush()
            future.result()

    def send_arrow() -> None:
        import pyarrow as pa

        with Producer(bootstrap, **options) as producer:
            future = producer.send_many(topic, pa.array([value] * args.records))
            producer.flush()
            future.result()

    works = {"send": send_each, "send_keyed": send_keyed, "send_many": send_many, "send_many_arrow": send_arrow}
    return [measure(name, args.records, work) for name, work in works.items() if not args.only or name in args.only]


def consume(bootstrap: str, args: argparse.Namespace, topic: str) -> list[dict[str, Any]]:
    from penstock import Consumer

    def run(poll: str) -> None:
        with Consumer(bootstrap) as consumer:
            consumer.assign(consumer.partitions_for(topic))
            consumer.seek_to_beginning()
            seen = 0
            while seen < args.records:
                seen += len(getattr(consumer, poll)(timeout_ms=5_000))

    works = {"poll": lambda: run("poll"), "poll_arrow": lambda: run("poll_arrow")}
    return [measure(name, args.records, work) for name, work in works.items() if not args.only or name in args.only]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="", help="a running cluster; without it a fake one is started")
    parser.add_argument("--nodes", type=int, default=3, help="nodes of the fake cluster")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--batch", type=int, default=512 * 1024)
    parser.add_argument("--linger", type=int, default=5)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--only", nargs="*", default=[], help="names of the works to run")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    pipe = None
    if not args.bootstrap:
        pipe, theirs = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, args.nodes), daemon=True)
        process.start()
        args.bootstrap = pipe.recv()
    from penstock import Admin

    topic = f"bench-{os.getpid()}"
    with Admin(args.bootstrap) as admin:
        admin.create_topic(topic, args.partitions, args.replication_factor)
        try:
            figures = produce(args.bootstrap, args, topic) + consume(args.bootstrap, args, topic)
        finally:
            admin.delete_topic(topic)
    if args.json:
        print(json.dumps(figures))
    if pipe is not None:
        pipe.send("end")
        process.join(10)


if __name__ == "__main__":
    main()
