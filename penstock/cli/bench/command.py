"""`penstock bench produce|consume`: a quick measurement of a running cluster; benchmarks/ measures with more care.

What was measured is shown by report.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.bench.report import Samples, report, require_plot
from penstock.cli.options import DEFAULT_BOOTSTRAP, Acks, AsJson, Bootstrap, Compression, complete_topic
from penstock.cli.output import progress
from penstock.errors import TimedOutError
from penstock.written.numbers import INT64_MAX

if TYPE_CHECKING:
    from penstock.client.producer.future import BulkFuture

app = typer.Typer(help="Measure a running cluster.", no_args_is_help=True)

CHUNK_RECORDS = 10_000
CHUNKS_IN_FLIGHT_MAX = 64
QUIET_POLLS_MAX = 20
"""A consume gives up after this many polls without a record, of half a second each."""

Records = Annotated[int, typer.Option("-n", "--records", min=1, max=INT64_MAX, help="How many records.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the run over time into this file.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="An existing topic.", autocompletion=complete_topic)]


@app.command("produce")
def bench_produce(
    topic: Topic,
    records: Records = 1_000_000,
    size: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bytes of each value.")] = 100,
    acks: Acks = "all",
    compression: Compression = "none",
    plot: Plot = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write records as fast as the cluster acks them."""
    require_plot(plot)
    from collections import deque

    from penstock import Producer

    values = [b"%0*d" % (size, number) for number in range(CHUNK_RECORDS)]
    values = [value[-size:] for value in values]
    samples, started = Samples(), time.perf_counter()
    with (
        Producer(bootstrap, acks=acks, compression_type=compression) as producer,
        progress("produce", records, quiet=as_json) as bar,
    ):
        pending: deque[BulkFuture] = deque()
        for at in range(0, records, CHUNK_RECORDS):
            chunk = values[: min(CHUNK_RECORDS, records - at)]
            pending.append(producer.send_many(topic, chunk))
            pending[-1].add_done_callback(_sampler(samples, started, size))
            if len(pending) > CHUNKS_IN_FLIGHT_MAX:
                bar.advance(pending.popleft().result())
        while pending:
            bar.advance(pending.popleft().result())
    seconds = time.perf_counter() - started
    report(f"bench produce {topic}, acks={acks}", samples, seconds, as_json=as_json, plot_path=plot)


@app.command("consume")
def bench_consume(
    topic: Topic,
    records: Records = 1_000_000,
    plot: Plot = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Read records from the beginning, as fast as they come."""
    require_plot(plot)
    from penstock import Admin, Consumer, TopicPartition

    with Admin(bootstrap) as admin:
        partitions = [TopicPartition(topic, p.partition) for p in admin.describe_topic(topic).partitions]
    seen = quiet = 0
    samples, started = Samples(), time.perf_counter()
    with Consumer(bootstrap) as consumer, progress("consume", records, quiet=as_json) as bar:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while seen < records:
            polled = consumer.poll(timeout_ms=500)
            quiet = 0 if polled else quiet + 1
            if quiet > QUIET_POLLS_MAX:
                raise TimedOutError(f"topic {topic} has {seen} records, not {records}; give -n {seen}")
            seen += len(polled)
            size_bytes = sum(len(record.value or b"") for record in polled)
            samples.add(time.perf_counter() - started, len(polled), size_bytes)
            bar.advance(len(polled))
    report(f"bench consume {topic}", samples, time.perf_counter() - started, as_json=as_json, plot_path=plot)


def _sampler(samples: Samples, started: float, size: int) -> Callable[[BulkFuture], None]:
    """Called back when a chunk is acked; what has failed is no sample, and ends the bench."""
    sent = time.perf_counter()

    def acked(future: BulkFuture) -> None:
        now = time.perf_counter()
        if future.exception(0) is None:
            samples.add(now - started, future.count, future.count * size, (now - sent) * 1000)

    return acked
