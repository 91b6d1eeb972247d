"""How jobs that make records send them: a topic for old records, chunks, and every ack before the next chunk.

For the jobs without Spark (clicks, github-events). Failures are the producer's own; nothing is sent again here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.pipelines.frame.conf import RunConf

CHUNK = 500
"""Records sent before the acks are awaited: so far partitions can be apart in the records' own time."""


class Sendable(Protocol):
    """The parts of a record that are needed to send it."""

    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


S = TypeVar("S", bound=Sendable)


def make_topic(bootstrap: str, topic: str, partitions: int, run: RunConf) -> None:
    """Creates the topic if it does not exist, with `retention.ms=-1`: the records are older than usual retention."""
    with Admin(bootstrap, **run.admin_options) as admin:
        if topic not in admin.list_topics():
            admin.create_topic(topic, partitions, config={"retention.ms": -1})


def chunks(records: Iterable[S]) -> Iterator[list[S]]:
    rest = iter(records)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def send_chunk(producer: Producer, topic: str, chunk: Sequence[Sendable]) -> None:
    """Returns when every record is acked; the first failure is raised."""
    futures = [
        producer.send(topic, record.value, record.key, list(record.headers), timestamp_ms=record.timestamp_ms)
        for record in chunk
    ]
    producer.flush()
    for future in futures:
        future.result()
