"""`penstock bench produce|consume`: a quick measurement of a running cluster; benchmarks/ measures with more care."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, Acks, AsJson, Bootstrap, Compression
from penstock.cli.output import note, print_fields, print_json, progress
from penstock.errors import TimedOutError

if TYPE_CHECKING:
    from penstock.client.producer.future import BulkFuture

app = typer.Typer(help="Measure a running cluster.", no_args_is_help=True)

CHUNK_RECORDS = 10_000
CHUNKS_IN_FLIGHT_MAX = 64
QUIET_POLLS_MAX = 20
"""A consume gives up after this many polls without a record, of half a second each."""
MB = 1_000_000

Records = Annotated[int, typer.Option("-n", "--records", min=1, help="How many records.")]


@app.command("produce")
def bench_produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="An existing topic.")],
    records: Records = 1_000_000,
    size: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bytes of each value.")] = 100,
    acks: Acks = "all",
    compression: Compression = "none",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write records as fast as the cluster acks them."""
    from collections import deque

    from penstock import Producer

    values = [b"%0*d" % (size, number) for number in range(CHUNK_RECORDS)]
    values = [value[-size:] for value in values]
    started = time.perf_counter()
    with (
        Producer(bootstrap, acks=acks, compression_type=compression) as producer,
        progress("produce", records, quiet=as_json) as bar,
    ):
        pending: deque[BulkFuture] = deque()
        for at in range(0, records, CHUNK_RECORDS):
            chunk = values[: min(CHUNK_RECORDS, records - at)]
            pending.append(producer.send_many(topic, chunk))
            if len(pending) > CHUNKS_IN_FLIGHT_MAX:
                bar.advance(pending.popleft().result())
        while pending:
            bar.advance(pending.popleft().result())
    _report(records, records * size, time.perf_counter() - started, as_json)


@app.command("consume")
def bench_consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="An existing topic.")],
    records: Records = 1_000_000,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Read records from the beginning, as fast as they come."""
    from penstock import Admin, Consumer, TopicPartition

    with Admin(bootstrap) as admin:
        partitions = [TopicPartition(topic, p.partition) for p in admin.describe_topic(topic).partitions]
    seen = size_bytes = quiet = 0
    started = time.perf_counter()
    with Consumer(bootstrap) as consumer, progress("consume", records, quiet=as_json) as bar:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while seen < records:
            polled = consumer.poll(timeout_ms=500)
            quiet = 0 if polled else quiet + 1
            if quiet > QUIET_POLLS_MAX:
                raise TimedOutError(f"topic {topic} has {seen} records, not {records}; give -n {seen}")
            seen += len(polled)
            size_bytes += sum(len(record.value or b"") for record in polled)
            bar.advance(len(polled))
    _report(seen, size_bytes, time.perf_counter() - started, as_json)


def _report(records: int, size_bytes: int, seconds: float, as_json: bool) -> None:
    figures = {
        "records": records,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds),
        "megabytes_per_second": round(size_bytes / seconds / MB, 1),
    }
    if as_json:
        print_json(figures)
    else:
        print_fields({name.replace("_", " "): value for name, value in figures.items()})
        note("bytes are those of the values; headers and protocol are not counted")
