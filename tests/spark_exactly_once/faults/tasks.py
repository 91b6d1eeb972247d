"""Faults of what works: tasks that die in the middle, alone or with all of Python, twins, and tasks that are too slow.

The faults are functions of a task's rows, which Spark runs in its Python workers. They know their attempt by Spark's
TaskContext, and tell each other by files (`marks`) what has happened before.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.client.producer.transactions.atomic_batches import AtomicBatches
from penstock.spark.writing.batch_key import BATCH_ID, QUERY_ID, run_of, task_property
from tests.spark_exactly_once.faults.promise import TASK_ERROR
from tests.spark_exactly_once.faults.stage import FOREACH, FORMAT, Query, Shape, Stage, once
from tests.spark_exactly_once.topics import PARTITIONS

RETRIED, FAILS, KILLED = "a task fails and is tried again", "a task fails for good", "the Python processes"
LOST = "a machine is lost"
BATCH_FAILS, NAMED_AGAIN, TOO_LONG = "a batch write fails", "a named batch write runs again", "a micro-batch takes"
TIME_OUT: Final = "kafka.transaction.timeout.ms"
TASK: Final = 1
"""The task that dies; others have written their rows by then, or have not."""
UNWANTED: Final = 999_999_999
Rows = Callable[[Iterator[Any]], Iterator[Any]]


def through(function: Rows) -> Shape:
    """Rows in shuffled order, through the function in each task."""

    def shape(frame: DataFrame) -> DataFrame:
        from pyspark.sql.functions import rand

        return frame.repartition(PARTITIONS, rand()).mapInArrow(function, "value binary")

    return shape


def task() -> tuple[int, int]:
    """The task that runs here, and its attempt."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


def passed(batches: Iterator[Any]) -> Generator[Any, None, Any]:
    """The batches; returns their schema."""
    schema = None
    for batch in batches:
        schema = batch.schema
        yield batch
    return schema


def unwanted(schema: Any) -> Iterator[Any]:
    """Rows of an attempt that is about to die: enough to push the rows before them through the buffers between Spark's
    processes to the sink, which has begun and sent by then. No reader may ever see one."""
    values = pa.array([b"%04000d" % UNWANTED] * 64, pa.binary())
    yield pa.record_batch({"value": values}) if schema is None else pa.record_batch([values], schema=schema)
    time.sleep(0.7)


def _fails(batches: Iterator[Any]) -> Iterator[Any]:
    schema = yield from passed(batches)
    if task()[0] == TASK:
        yield from unwanted(schema)
        raise RuntimeError(TASK_ERROR)


def _fails_everywhere(batches: Iterator[Any]) -> Iterator[Any]:
    schema = yield from passed(batches)
    yield from unwanted(schema)
    raise RuntimeError(TASK_ERROR)


fails_always = through(_fails)


def dies_once(stage: Stage, draw: random.Random) -> None:
    """The first attempt raises behind its rows, the second does not."""

    def breaks(batches: Iterator[Any]) -> Iterator[Any]:
        schema = yield from passed(batches)
        if task() == (TASK, 0):
            yield from unwanted(schema)
            raise RuntimeError(TASK_ERROR)

    _judged_once(stage, draw, through(breaks))


def pythons_are_killed_once(stage: Stage, draw: random.Random) -> None:
    """Every Python worker of the executor is killed (-9) once, the sink's own among them: nothing can abort."""
    marks = _marks(stage)

    def kills(batches: Iterator[Any]) -> Iterator[Any]:
        schema = yield from passed(batches)
        if task()[0] == TASK and not os.listdir(marks):
            yield from unwanted(schema)
            (marks / "killed").touch()
            _kill_the_others()

    _judged_once(stage, draw, through(kills))
    stage.holds("workers were killed", bool(os.listdir(marks)))


def pythons_are_killed_always(stage: Stage, draw: random.Random) -> None:
    """The same in each attempt of the only task: the last wills of the processes abort what nobody else knows of."""

    def kills(batches: Iterator[Any]) -> Iterator[Any]:
        yield from unwanted((yield from passed(batches)))
        _kill_the_others()

    def alone(frame: DataFrame) -> DataFrame:
        return frame.repartition(1).mapInArrow(kills, "value binary")

    query, rows, more = _grown(stage, draw, stage.query(draw, 0, sink=FORMAT))
    stage.repeats(query.but(shape=alone), KILLED, once(range(rows)))
    stage.holds("the killed workers had written", stage.appended(query.target) > rows)
    stage.repeats(query, RETRIED, once(range(rows + more)))


def a_machine_is_lost(stage: Stage, draw: random.Random) -> None:
    """The same, and what carries out the last wills is killed too: what was written is open until the next start."""

    def loses(batches: Iterator[Any]) -> Iterator[Any]:
        schema = yield from passed(batches)
        if task()[0] == TASK:
            yield from unwanted(schema)
            _kill_the_others(with_their_children=True)

    rows = 3 * draw.randint(10, 60)
    query = stage.query(draw, rows)
    stage.holds("the query ends with its workers", bool(stage.carry(query.but(shape=through(loses)))))
    stage.holds("the killed workers had written", bool(stage.appended(query.target)))
    stage.repeats(query, LOST, once(range(rows)))


def twin(stage: Stage, draw: random.Random) -> None:
    """Two attempts of a task write all of its rows, and Spark accepts one of them, as with speculation."""
    rows = 3 * draw.randint(10, 60)
    query = stage.query(draw, rows)
    stage.repeats(query.but(shape=_with_twins(stage, query)), RETRIED, once(range(rows)))


def _with_twins(stage: Stage, query: Query) -> Shape:
    bootstrap, target, suffix = stage.bootstrap, query.target, f"/{query.write}" if query.sink == FOREACH else ""

    def twice(batches: Iterator[Any]) -> Iterator[Any]:
        application = f"{task_property(QUERY_ID)}{suffix}"
        with AtomicBatches(bootstrap) as atomic:
            for batch in batches:
                version = int(str(task_property(BATCH_ID)))
                writer = atomic.begin(application, version, run=run_of(task_property), timeout_ms=900_000)
                assert writer is not None
                with writer:
                    writer.send_many(target, batch.column(0)).result()
                yield batch

    return through(twice)


def dies_for_good(stage: Stage, draw: random.Random) -> None:
    """One task fails in each attempt, in front of the sink; the driver knows the batch by the others."""
    query, rows, more = _grown(stage, draw, stage.query(draw, 0))
    stage.repeats(query.but(shape=fails_always), FAILS, once(range(rows)))
    stage.holds("the tasks that failed had written", stage.appended(query.target) > rows)
    stage.repeats(query, RETRIED, once(range(rows + more)))


def the_only_task_dies_for_good(stage: Stage, draw: random.Random) -> None:
    """No task ends, so the driver does not know what is open; the sink's process sees that its rows were cut off."""

    def alone(frame: DataFrame) -> DataFrame:
        return frame.repartition(1).mapInArrow(_fails_everywhere, "value binary")

    query, rows, more = _grown(stage, draw, stage.query(draw, 0, sink=FORMAT))
    stage.repeats(query.but(shape=alone), FAILS, once(range(rows)))
    stage.holds("the task that failed had written", stage.appended(query.target) > rows)
    stage.repeats(query, RETRIED, once(range(rows + more)))


def a_row_that_no_topic_takes(stage: Stage, draw: random.Random) -> None:
    """The sink itself fails, at the last row of the only task, and aborts what it wrote before."""
    query, rows, more = _grown(stage, draw, stage.query(draw, 0, sink=FORMAT))

    def and_one_more(batches: Iterator[Any]) -> Iterator[Any]:
        schema = yield from passed(batches)
        yield from unwanted(schema)
        yield pa.record_batch([pa.array([b"astray"], pa.binary())], schema=schema)

    def misled(frame: DataFrame) -> DataFrame:
        topics = f"IF(string(value) = 'astray', '{TASK_ERROR}', '{query.target}') AS topic"
        return frame.repartition(1).mapInArrow(and_one_more, "value binary").selectExpr("value", topics)

    stage.repeats(query.but(shape=misled, options={"topic": ""}), FAILS, once(range(rows)))
    stage.holds("the task that failed had written", stage.appended(query.target) > rows)
    stage.repeats(query, RETRIED, once(range(rows + more)))


def _grown(stage: Stage, draw: random.Random, query: Query) -> tuple[Query, int, int]:
    """A query that has done one micro-batch; the numbers in it, and in the next."""
    rows, more = 3 * draw.randint(10, 60), 3 * draw.randint(10, 40)
    stage.add(query.source, range(rows))
    stage.must_carry(query)
    stage.add(query.source, range(rows, rows + more))
    return query, rows, more


def batch_write(stage: Stage, draw: random.Random) -> None:
    """A batch write with a name or without one: it fails as a whole, and with a name it is written once."""
    rows, target, is_named = 3 * draw.randint(10, 60), stage.topic(), draw.random() < 0.7
    name = {"txnAppId": f"job-{target}", "txnVersion": draw.randrange(1000)} if is_named else {}

    def write(shape: Shape | None = None) -> str:
        frame = stage.spark.range(0, rows, 1, PARTITIONS).selectExpr("binary(string(id)) AS value")
        given = {"bootstrap": stage.bootstrap, "topic": target, **name}
        try:
            (shape(frame) if shape else frame).write.format("penstock").options(**given).mode("append").save()
        except PySparkException as error:
            return str(error)
        return ""

    stage.judged(BATCH_FAILS, target, once(), lambda: write(fails_always))
    stage.judged(RETRIED, target, once(range(rows)), write)
    if is_named:
        stage.judged(NAMED_AGAIN, target, once(range(rows)), write)


def too_long(stage: Stage, draw: random.Random) -> None:
    """One task is slower than the time of the transaction; with more time the same batch goes on."""
    time_out_ms = draw.randint(1_500, 3_000)
    rows = 3 * draw.randint(10, 60)
    query = stage.query(draw, rows)
    slow = through(_slow(2 * time_out_ms / 1000))
    stage.repeats(query.but(shape=slow, options={TIME_OUT: time_out_ms}), TOO_LONG, once())
    stage.repeats(query.but(shape=slow), RETRIED, once(range(rows)))


def more_than_half_as_long(stage: Stage, draw: random.Random) -> None:
    """One task takes more than half of the time: a warning, and every row."""
    time_out_ms = draw.randint(9_000, 12_000)
    rows = 3 * draw.randint(10, 60)
    query = stage.query(draw, rows)
    slow = query.but(shape=through(_slow(0.55 * time_out_ms / 1000)), options={TIME_OUT: time_out_ms})
    before = len(stage.logged())
    stage.repeats(slow, RETRIED, once(range(rows)))
    stage.holds("a warning tells half of the time", f"s that {TIME_OUT} gives it" in stage.logged()[before:])


def _slow(seconds: float) -> Rows:
    """Waits behind its first rows."""

    def waits(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            yield batch
            if not number and task()[0] == TASK:
                time.sleep(seconds)

    return waits


def _judged_once(stage: Stage, draw: random.Random, shape: Shape) -> None:
    rows = 3 * draw.randint(10, 60)
    query = stage.query(draw, rows)
    stage.repeats(query.but(shape=shape), RETRIED, once(range(rows)))
    stage.holds("the attempt that died had written", stage.appended(query.target) > rows)


def _marks(stage: Stage) -> Path:
    stage.made += 1
    found = stage.directory / f"marks-{stage.made}"
    found.mkdir()
    return found


def _kill_the_others(*, with_their_children: bool = False) -> None:
    """Kills the Python workers of this executor, which may have a daemon for each kind; this process at last."""
    daemons = _children(_parent(os.getppid()))
    workers = {worker for daemon in daemons for worker in _children(daemon)}
    for child in sorted(workers, key=lambda number: number == os.getpid()):
        for one in (*(_children(child) if with_their_children else ()), child):
            os.kill(one, signal.SIGKILL)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def _children(process: int) -> list[int]:
    """The children of all its threads: each belongs to the thread that began it."""
    found = (path.read_text(encoding="ascii").split() for path in Path(f"/proc/{process}/task").glob("*/children"))
    return [int(number) for numbers in found for number in numbers]
