"""Faults of names and of inputs: names that begin alike, queries with another name, tables and topics that are joined.

A query's batches are named by its checkpoint, those of `write_batch` by the query (or an application) and the write,
those of a batch write by the job and the topic: two that begin alike must not be taken for one.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.client.admin.admin import Admin
from penstock.client.producer.transactions.atomic_batches import AtomicBatches
from penstock.errors import PenstockError
from penstock.spark import write_batch
from tests.spark_exactly_once.checkpoint import forget_last_commit, last_batch
from tests.spark_exactly_once.faults.checkpoints import GOES_ON, KILLED, REPEATED, application_of, two_batches
from tests.spark_exactly_once.faults.promise import TASK_ERROR
from tests.spark_exactly_once.faults.stage import FOREACH, FORMAT, WRITE, Stage, once
from tests.spark_exactly_once.faults.tasks import NAMED_AGAIN, fails_always

FENCED, OTHER_ROWS, TWO_TOPICS = "a second run of the query", "a repeated batch has other rows", "one name is written"
ALIKE: Final = (
    (("orders", "a"), ("orders", "ab")),
    (("orders", "a"), ("orders-a", "a")),
    (("orders", "a"), ("orders/a", "a")),
    (("orders@a", "b"), ("orders", "b")),
    (("orders/a", "b"), ("orders", "a-b")),
)
"""Applications and names of writes that begin alike, of two queries."""
MISSING: Final = -1
"""The number of a row that the joined table does not have."""


def alike(stage: Stage, draw: random.Random) -> None:
    """Two queries copy one topic at the same time, each to its own; a task of one fails for good."""
    both, rows, fails = draw.choice(ALIKE), 3 * draw.randint(10, 60), draw.randrange(2)
    first = stage.query(draw, rows, sink=FOREACH)
    queries = []
    for number, (application, write) in enumerate(both):
        queries.append(
            first.but(
                target=stage.topic(name=f"{first.target}{'-b' * (number + 1)}"),
                checkpoint=first.checkpoint.with_name(f"{first.checkpoint.name}{'-b' * number}"),
                write=write,
                options={"application": f"{first.target}-{application}"},
                reads={"kafka.group.id": f"{first.target}{'-b' * number}", "commitOffsetsToGroup": "true"},
            )
        )
    acts = [query.but(shape=fails_always) if number == fails else query for number, query in enumerate(queries)]
    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(stage.carry, acts))
    as_expected = [TASK_ERROR in error if number == fails else not error for number, error in enumerate(errors)]
    stage.holds(f"the query whose task fails ends, and the other does not: {errors}", all(as_expected))
    for query in queries:
        stage.repeats(query, GOES_ON, once(range(rows)))
        stage.must_carry(query)  # the group has a query's last micro-batch at the next start
    with Admin(stage.bootstrap) as admin:
        for query in queries:
            found = admin.group_offsets(query.reads["kafka.group.id"])
            stage.holds(
                f"a group has what its query has read: {found}", sum(at.offset for at in found.values()) == rows
            )


def renamed(stage: Stage, draw: random.Random) -> None:
    """The name that Spark shows of a query is another one at its next start, which repeats its last micro-batch."""
    query, first, second = two_batches(stage, draw)
    forget_last_commit(query.checkpoint)
    stage.repeats(query.but(name=f"renamed-{query.target}"), REPEATED, once(range(first + second)))


def one_name_for_two_topics(stage: Stage, draw: random.Random) -> None:
    """Delta's idiom: one txnAppId and txnVersion for all outputs. The topics begin alike. Another job is spelt as one
    of these writes is, and is refused until it is told which one it is."""
    rows, topic = 3 * draw.randint(10, 60), stage.topic()
    job, version = f"job-{topic}", draw.randrange(1000)
    topics = [topic, stage.topic(name=f"{topic}-audit")]

    def write(target: str, name: str = job, **more: int) -> str:
        frame = stage.spark.range(0, rows, 1, 3).selectExpr("binary(string(id)) AS value")
        given = {"bootstrap": stage.bootstrap, "topic": target, "txnAppId": name, "txnVersion": version, **more}
        try:
            frame.write.format("penstock").options(**given).mode("append").save()
        except PySparkException as error:
            return str(error)
        return ""

    for target in topics:
        stage.judged(TWO_TOPICS, target, once(range(rows)), lambda target=target: write(target))
    for target in topics:
        stage.judged(NAMED_AGAIN, target, once(range(rows)), lambda target=target: write(target))
    spelt = f"{job}@{topic}"
    stage.holds("a job whose name may be another write's is told", "txnAppId has an '@'" in write(topics[1], spelt))
    twice = once(range(rows), range(rows))
    stage.judged(GOES_ON, topics[1], twice, lambda: write(topics[1], spelt, txnGoesBackTo=version))


def second_run(stage: Stage, draw: random.Random) -> None:
    """A run with a copy of the checkpoint begins the next micro-batch; the first one ends, and the copy commits."""
    rows, more = 3 * draw.randint(10, 60), 3 * draw.randint(10, 40)
    query = stage.query(draw, rows)
    running = stage.start(query, is_endless=True)

    def goes_on() -> str:
        stage.add(query.source, range(rows, rows + more))
        try:
            running.processAllAvailable()
        except PySparkException as error:
            return str(error)
        return ""

    try:
        running.processAllAvailable()
        application = application_of(query) + (f"/{WRITE}" if query.sink == FOREACH else "")
        with AtomicBatches(stage.bootstrap) as batches:
            writer = batches.begin(application, 1, run="a copy", timeout_ms=900_000)
            assert writer is not None
            with writer:
                writer.send_many(query.target, [b"%d" % number for number in range(rows, rows + more)]).result()
            error = goes_on()
            try:
                batches.commit(application, 1, [writer.identity], run="a copy")
            except PenstockError as refused:
                stage.holds(f"the run that begins later goes on: {refused}", False)
    finally:
        running.stop()
    stage.judged(FENCED, query.target, once(range(rows + more)), lambda: error)
    stage.repeats(query, REPEATED, once(range(rows + more)))


def a_table_that_grew(stage: Stage, draw: random.Random) -> None:
    """A joined table has other rows when the last micro-batch is repeated; the option that the error names goes on."""
    _joined(stage, draw, grows=True)


def a_table_that_is_as_it_was(stage: Stage, draw: random.Random) -> None:
    _joined(stage, draw, grows=False)


def _joined(stage: Stage, draw: random.Random, *, grows: bool) -> None:
    rows, known = 3 * draw.randint(10, 60), draw.randint(5, 25)
    query = stage.query(draw, rows)
    table = str(stage.directory / f"table-{query.target}")

    def add(first: int, last: int) -> None:
        stage.spark.range(first, last).selectExpr("int(id) AS number", "int(id) AS name").write.mode("append").parquet(
            table
        )

    def shape(frame: DataFrame) -> DataFrame:
        numbers = frame.selectExpr("int(string(value)) AS number")
        joined = numbers.join(stage.spark.read.parquet(table), "number", "left")
        return joined.selectExpr(f"binary(string(coalesce(name, {MISSING}))) AS value")

    add(0, known)
    query = query.but(shape=shape)
    stage.must_carry(query)
    first = once(range(known)) + Counter({MISSING: rows - known})
    forget_last_commit(query.checkpoint)
    if not grows:
        stage.repeats(query, REPEATED, first)
        return
    add(known, known + draw.randint(1, 5))
    stage.repeats(query, OTHER_ROWS, first)
    stage.repeats(query.but(options={"txnAcceptsRepetition": 0}), REPEATED, first)


def two_topics_into_one(stage: Stage, draw: random.Random) -> None:
    """The union of two topics; the note of its last micro-batch is gone, and one of the topics has grown."""
    rows, more = 3 * draw.randint(10, 60), 3 * draw.randint(10, 40)
    query = stage.query(draw, rows)
    other = stage.topic(range(rows, rows + more))

    def shape(frame: DataFrame) -> DataFrame:
        given = {"bootstrap": stage.bootstrap, "subscribe": other, "startingOffsets": "earliest"}
        return frame.union(stage.spark.readStream.format("penstock").options(**given).load().select("value"))

    query = query.but(shape=shape)
    stage.must_carry(query)
    forget_last_commit(query.checkpoint)
    stage.repeats(query, REPEATED, once(range(rows + more)))
    forget_last_commit(query.checkpoint)
    stage.add(other, range(rows + more, rows + more + 30))
    stage.repeats(query, GOES_ON, once(range(rows + more + 30)))


def two_writes_of_a_batch(stage: Stage, draw: random.Random) -> None:
    """foreachBatch fails between its two writes, which are of one topic; the next start repeats both."""
    rows = 3 * draw.randint(10, 60)
    query = stage.query(draw, rows, sink=FORMAT)
    fails = [True]

    def on_batch(frame: DataFrame, number: int) -> None:
        write_batch(frame, number, name="one", bootstrap=stage.bootstrap, topic=query.target)
        if fails.pop() if fails else False:
            raise RuntimeError(TASK_ERROR)
        write_batch(frame, number, name="one/more", bootstrap=stage.bootstrap, topic=query.target)

    def carry() -> str:
        given = {"bootstrap": stage.bootstrap, "subscribe": query.source, "startingOffsets": "earliest"}
        writer = stage.spark.readStream.format("penstock").options(**given).load().select("value").writeStream
        writer = writer.foreachBatch(on_batch).option("checkpointLocation", str(query.checkpoint))
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except PySparkException as error:
            return str(error)
        return ""

    stage.holds("foreachBatch fails between its writes", TASK_ERROR in carry())
    stage.holds("the batch is not done", last_batch(query.checkpoint / "commits") < 0)
    stage.judged(KILLED, query.target, once(range(rows), range(rows)), carry)
