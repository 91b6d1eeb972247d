"""The moments of a micro-batch at which a driver is killed, seen from what it has written so far.

    planned      the batch is in the checkpoint's `offsets`, and nothing of it is in the sink
    files        Parquet files of the batch are in the table's directory, and not yet in the sink's log
    sink-log     the sink's log has the batch, the checkpoint's `commits` has not
    records      records of the batch are in the topic, and not yet committed
    decided      readers of committed records see them, the checkpoint's `commits` has the batch not

Each function looks at what is there now and returns the question whether its moment has come since.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.client.admin.admin import Admin
from penstock.client.consumer.consumer import Consumer
from penstock.pipelines.parquet_table.sink_log import METADATA_DIRECTORY, last_batch
from tests.support.campaign.reading import places_of

Reached = Callable[[], bool]


def planned(checkpoint: Path) -> Reached:
    return _grows(lambda: last_batch(checkpoint / "offsets"))


def files(table: Path) -> Reached:
    return _grows(lambda: sum(1 for _ in table.rglob("*.parquet")))


def sink_log(table: Path) -> Reached:
    return _grows(lambda: last_batch(table / METADATA_DIRECTORY))


def records(admin: Admin, topic: str, partitions: int) -> Reached:
    """A marker in each partition may be of the run before, which was killed."""
    return _grows(lambda: end_of(admin, topic, partitions), partitions)


def decided(bootstrap: str, topic: str, partitions: int) -> Reached:
    consumer = Consumer(bootstrap, isolation_level="read_committed")
    places = places_of(topic, partitions)
    return _grows(lambda: sum(consumer.end_offsets(places).values()), partitions)


def end_of(admin: Admin, topic: str, partitions: int) -> int:
    """The sum of the partitions' end offsets."""
    return sum(end.offset for end in admin.list_offsets(places_of(topic, partitions)).values())


def _grows(number: Callable[[], int], by_more_than: int = 0) -> Reached:
    before = number() + by_more_than
    return lambda: number() > before
