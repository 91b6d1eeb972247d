"""A Spark session, a node and queries that carry numbers between topics: where the faults are played.

A query is the format `penstock` or `write_batch` in `foreachBatch`, as the seed draws it; both promise the same. After
each fault the stage looks at the target as a reader of committed records and asks promise.py.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import rand

from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.errors import PenstockError
from penstock.spark import spark_session, write_batch
from penstock.testing import Cluster
from tests.spark_exactly_once.checkpoint import forget
from tests.spark_exactly_once.faults.promise import Seen, problems_of, promise_of
from tests.spark_exactly_once.topics import PARTITIONS, add, counts, end, places, reader
from tests.support.python_nursery import python_nursery, pythons

FORMAT, FOREACH = "format", "foreachBatch"
WAIT_S: Final = 15.0
"""For readers who must not wait. A transaction that nobody ends is open for 15 minutes."""
ANOTHER: Final = -7
"""The record of another program."""
WRITE: Final = "copy"
"""The name of the write in foreachBatch."""
Shape = Callable[[DataFrame], DataFrame]
_numbers = itertools.count()
"""Names of topics: stages of one process may share a cluster."""


@dataclass(frozen=True)
class Query:
    """A stream from `source` to `target`, in shuffled order; as old as its checkpoint."""

    source: str
    target: str
    checkpoint: Path
    sink: str = FORMAT
    max_offsets: int = 1000
    shape: Shape | None = None
    """Changes the rows before they are written."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the sink."""
    reads: Mapping[str, Any] = field(default_factory=dict)
    """Options of the source."""
    name: str = ""
    """Spark's name of the query."""
    write: str = WRITE
    """write_batch's name of the write."""

    def but(self, **changes: Any) -> Query:
        return replace(self, **changes)


class Stage:
    """The session and the node of a run; `problems` has what was not as promised."""

    def __init__(self, spark: SparkSession, cluster: Cluster, directory: Path, log: Path) -> None:
        self.spark, self.bootstrap, self.directory = spark, cluster.bootstrap, directory
        self.problems: list[str] = []
        self.log, self._logged_before = log, log.stat().st_size if log.exists() else 0
        self.made = 0

    # -- topics and queries --------------------------------------------------------------------------------------------

    def topic(self, numbers: Collection[int] = (), name: str = "") -> str:
        """A new topic, with these numbers in it."""
        name = name or f"faults-{next(_numbers)}"
        with Admin(self.bootstrap) as admin:
            admin.create_topic(name, PARTITIONS, 1)
        self.add(name, numbers)
        return name

    def add(self, topic: str, numbers: Collection[int]) -> None:
        add(self.bootstrap, topic, numbers)

    def query(self, draw: random.Random, numbers: int, **more: Any) -> Query:
        """A query of a drawn kind of sink, whose source has the first numbers."""
        source, target = self.topic(range(numbers)), self.topic()
        self.made += 1
        given = {"sink": draw.choice((FORMAT, FOREACH)), **more}
        return Query(source, target, self.directory / f"checkpoint-{self.made}", **given)

    def carry(self, query: Query) -> str:
        """Runs the query to the present end of its source; its error, "" for none."""
        try:
            self.start(query).awaitTermination()
        except (PySparkException, PenstockError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def must_carry(self, query: Query) -> None:
        """A start that no fault meets."""
        if error := self.carry(query):
            raise AssertionError(f"a query failed before its fault: {error}")

    def start(self, query: Query, *, is_endless: bool = False) -> Any:
        """The query, started."""
        stream = self.spark.readStream.format("penstock").options(
            bootstrap=self.bootstrap,
            subscribe=query.source,
            maxOffsetsPerTrigger=query.max_offsets,
            **{"startingOffsets": "earliest", **query.reads},
        )
        rows = stream.load().select("value")
        rows = query.shape(rows) if query.shape else rows.repartition(PARTITIONS, rand())
        given = {"bootstrap": self.bootstrap, "topic": query.target, **query.options}
        if query.sink == FORMAT:
            writer = rows.writeStream.format("penstock").options(**given)
        else:
            writer = rows.writeStream.foreachBatch(
                lambda frame, number: write_batch(frame, number, **{"name": query.write, **given})
            )
        writer = writer.option("checkpointLocation", str(query.checkpoint))
        writer = writer.queryName(query.name) if query.name else writer
        return (writer if is_endless else writer.trigger(availableNow=True)).start()

    # -- the judge -----------------------------------------------------------------------------------------------------

    def judged(self, row: str, target: str, wanted: Counter[int], act: Callable[[], str]) -> None:
        """Acts, which gives the query's error, and compares with the row of the page that begins so."""
        promise = promise_of(row)
        before = self.appended(target)
        error = act()
        appended = self.appended(target) - before
        is_another_read = bool(promise.readers.waits and error) or self._reads_another(target)
        committed = counts(self.bootstrap, target, wait_s=0.0)  # it has waited, and something may stay open
        del committed[ANOTHER]
        seen = Seen(error, committed, wanted, appended, is_another_read)
        self.problems += [f"{promise.happens}: {problem}" for problem in problems_of(promise, seen)]

    def repeats(self, query: Query, row: str, wanted: Counter[int]) -> None:
        """The next start of the query, judged."""
        self.judged(row, query.target, wanted, lambda: self.carry(query))

    def holds(self, fact: str, is_so: bool) -> None:
        """A promise of the page that is in none of its cells."""
        if not is_so:
            self.problems.append(f"not so: {fact}")

    def logged(self) -> str:
        """The log of Spark's processes, since the stage began."""
        return self.log.read_bytes()[self._logged_before :].decode(errors="replace")

    def appended(self, target: str) -> int:
        """Records of the target, those of other programs left out. Markers have offsets, and are none."""
        found = counts(self.bootstrap, target, committed=False)
        del found[ANOTHER]
        return found.total()

    def _reads_another(self, target: str) -> bool:
        """Another program writes to each partition; True if readers of committed records reach all of that in time."""
        with Producer(self.bootstrap) as producer:
            for place in places(target):
                producer.send(target, b"%d" % ANOTHER, partition=place.partition).result()
        deadline = time.monotonic() + WAIT_S
        with reader(self.bootstrap, committed=False) as every, reader(self.bootstrap, committed=True) as committed:
            while end(committed, target) < end(every, target):
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.05)
        return True


def once(*numbers: range) -> Counter[int]:
    return Counter(number for some in numbers for number in some)


def forget_plan(checkpoint: Path, number: int) -> str:
    """The plan of a batch, and Spark's note that it was done, are gone; the plan as Kafka's JSON, which
    `startingOffsets` takes."""
    ends = json.loads((checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()[-1])["topics"]
    for log in ("commits", "offsets"):
        forget(checkpoint / log, number)
    return json.dumps(
        {topic: {number: at[0] for number, at in known["partitions"].items()} for topic, known in ends.items()}
    )


@contextmanager
def stage_in(directory: Path) -> Iterator[Stage]:
    """One session of Spark and one node. A task that fails is tried twice more: where workers were killed, Spark may
    give the next attempt one that is dead, or about to be. Its Python processes are forked: those that are executed
    answer too late on a busy machine, and queries fail that no fault has met."""
    log = _log_of_this_jvm()
    config = {
        "spark.local.dir": tempfile.mkdtemp(dir=directory),
        "spark.sql.warehouse.dir": directory / "tables",
        "spark.sql.execution.arrow.maxRecordsPerBatch": 8,  # a task that dies has sent some of its rows
    }
    nursery = Path(tempfile.mkdtemp(dir=directory))
    with python_nursery(nursery) as command, Cluster(1, directory=str(directory / "cluster")) as cluster:
        with _errors_in(log), pythons(command):
            spark = spark_session("faults", "local[2,3]", config, quick=True)
        try:
            yield Stage(spark, cluster, directory, log)
        finally:
            spark.stop()


@cache
def _log_of_this_jvm() -> Path:
    """Sessions of one process share a JVM, whose standard error is a file from its start to its end."""
    directory = tempfile.TemporaryDirectory(prefix="penstock-spark-log-")
    atexit.register(directory.cleanup)
    return Path(directory.name) / "spark.log"


@contextmanager
def _errors_in(log: Path) -> Iterator[None]:
    """The standard error of a JVM that starts meanwhile, and of the Python processes that it starts, is a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
