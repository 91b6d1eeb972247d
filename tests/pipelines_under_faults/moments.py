"""The moments of a micro-batch at which a driver is killed, seen from what it has written so far.

    planned      the batch is in the checkpoint's `offsets`, and nothing of it is in the sink
    files        Parquet files of the batch are in the table's directory, and not yet in the sink's log
    sink-log     the sink's log has the batch, the checkpoint's `commits` has not
    records      records of the batch are in the topic, the checkpoint's `commits` has it not

Each function looks at what is there now and returns the question whether its moment has come since.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.client.admin.admin import Admin
from penstock.pipelines.table_files import METADATA_DIRECTORY
from penstock.types import TopicPartition

Reached = Callable[[], bool]


def planned(checkpoint: Path) -> Reached:
    return _grows(lambda: last_batch(checkpoint / "offsets"))


def files(table: Path) -> Reached:
    return _grows(lambda: sum(1 for _ in table.rglob("*.parquet")))


def sink_log(table: Path) -> Reached:
    return _grows(lambda: last_batch(table / METADATA_DIRECTORY))


def records(admin: Admin, topic: str, partitions: int) -> Reached:
    return _grows(lambda: end_of(admin, topic, partitions))


def end_of(admin: Admin, topic: str, partitions: int) -> int:
    """The sum of the partitions' end offsets."""
    return sum(end.offset for end in admin.list_offsets(partitions_of(topic, partitions)).values())


def partitions_of(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions)]


def last_batch(log: Path) -> int:
    """The last batch in one of Spark's logs, a directory with a file for each; -1 if there is none."""
    names = (path.name.split(".")[0] for path in log.glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def in_batch(checkpoint: Path) -> bool:
    """True if the driver died within a micro-batch."""
    return last_batch(checkpoint / "offsets") > last_batch(checkpoint / "commits")


def _grows(number: Callable[[], int]) -> Reached:
    before = number()
    return lambda: number() > before
