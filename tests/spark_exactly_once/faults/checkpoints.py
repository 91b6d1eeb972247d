"""Faults of what remembers: plans that are lost, decisions that are gone, checkpoints that are set back.

Each begins with a query that has done two micro-batches. A machine that loses its power may lose the newest plan and
note, a snapshot of a checkpoint is as old as it is, and the log forgets a query that rests for weeks.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Final

from penstock.client.producer.transactions.atomic_batches import AtomicBatches
from penstock.testing import Cluster
from tests.spark_exactly_once.checkpoint import forget_last_commit, last_batch
from tests.spark_exactly_once.faults.promise import LONG_PAUSE, PAGE
from tests.spark_exactly_once.faults.stage import FORMAT, Query, Stage, forget_plan, once
from tests.spark_exactly_once.faults.tasks import fails_always

LOST, SET_BACK = "the newest plan is lost", "the checkpoint is set back further"
KILLED, REPEATED = "a machine is lost", "the driver is killed between the decision"
GOES_ON = "a task fails and is tried again"
FORGETS: Final = {
    "transactional.id.expiration.ms": 1_500,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 300,
}
"""A log that forgets a query after 3 s of rest."""
FORGOTTEN_S: Final = 60.0


def two_batches(stage: Stage, draw: random.Random) -> tuple[Query, int, int]:
    """A query that has done two micro-batches; the numbers in the first, and in the second."""
    first, second = 3 * draw.randint(10, 60), 3 * draw.randint(10, 40)
    query = stage.query(draw, first)
    stage.must_carry(query)
    stage.add(query.source, range(first, first + second))
    stage.must_carry(query)
    return query, first, second


def plan_with_as_many_other_rows(stage: Stage, draw: random.Random) -> None:
    """The second batch is planned anew with as many rows, of other partitions; then the page's remedy: a new checkpoint
    that begins where the committed rows end."""
    query, first, second = two_batches(stage, draw)
    done = once(range(first + second))
    committed_ends = forget_plan(query.checkpoint, 1)
    more = range(first + second, first + 4 * second)
    stage.add(query.source, [number for number in more if not number % 3])
    stage.repeats(query.but(max_offsets=second), LOST, done)
    remedy = query.but(checkpoint=stage.directory / f"{query.target}-new", reads={"startingOffsets": committed_ends})
    stage.repeats(remedy, GOES_ON, done + Counter(number for number in more if not number % 3))


def plan_with_more_rows(stage: Stage, draw: random.Random) -> None:
    query, first, second = two_batches(stage, draw)
    forget_plan(query.checkpoint, 1)
    stage.add(query.source, range(first + second, first + second + draw.randint(1, 50)))
    stage.repeats(query, LOST, once(range(first + second)))


def plan_before_the_decision(stage: Stage, draw: random.Random) -> None:
    """The batch was planned, and a part of it was written; then its plan is lost, which nobody has decided."""
    first, second, third = (3 * draw.randint(10, 40) for _ in range(3))
    query = stage.query(draw, first)
    stage.must_carry(query)
    stage.add(query.source, range(first, first + second))
    stage.holds("a task that fails ends the query", bool(stage.carry(query.but(shape=fails_always))))
    forget_plan(query.checkpoint, 1)
    stage.add(query.source, range(first + second, first + second + third))
    stage.repeats(query, KILLED, once(range(first + second + third)))


def note_of_the_commit(stage: Stage, draw: random.Random) -> None:
    query, first, second = two_batches(stage, draw)
    forget_last_commit(query.checkpoint)
    stage.repeats(query, REPEATED, once(range(first + second)))


def decision(stage: Stage, draw: random.Random) -> None:
    """The log has forgotten the query: its last micro-batch, whose note is gone, is written again, and no other."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    stage.holds("the page says what a long pause costs", LONG_PAUSE in page)
    with Cluster(1, FORGETS, directory=str(stage.directory / "forgets")) as cluster:
        other = Stage(stage.spark, cluster, stage.directory / "of-decisions", stage.log)
        query, first, second = two_batches(other, draw)
        query = query.but(sink=FORMAT)
        first_batch, second_batch = once(range(first)), once(range(first, first + second))
        forget_last_commit(query.checkpoint)
        with AtomicBatches(cluster.bootstrap) as batches:
            deadline = time.monotonic() + FORGOTTEN_S
            while batches.last_version(application_of(query)) >= 0 and time.monotonic() < deadline:
                time.sleep(0.2)
        other.repeats(query, GOES_ON, first_batch + second_batch + second_batch)
        stage.problems += other.problems


def application_of(query: Query) -> str:
    """The name of the query's batches."""
    import json

    found: str = json.loads((query.checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    return found


def one_batch_and_the_topic_grew(stage: Stage, draw: random.Random) -> None:
    query, first, second, older = _with_a_copy(stage, draw)
    stage.add(query.source, range(first + second, first + second + draw.randint(1, 50)))
    stage.repeats(query.but(checkpoint=older), LOST, once(range(first + second)))


def one_batch_and_the_topic_is_as_it_was(stage: Stage, draw: random.Random) -> None:
    """The same rows are planned again, so nothing is wrong, and the query goes on with the older checkpoint."""
    query, first, second, older = _with_a_copy(stage, draw)
    stage.repeats(query.but(checkpoint=older), REPEATED, once(range(first + second)))
    stage.add(query.source, range(first + second, first + second + 30))
    stage.repeats(query.but(checkpoint=older), GOES_ON, once(range(first + second + 30)))


def further(stage: Stage, draw: random.Random) -> None:
    """Two or three batches; the checkpoint that was not set back goes on, and the older one where that is wanted."""
    query, first, second, older = _with_a_copy(stage, draw)
    rows = first + second
    for _ in range(draw.randint(1, 2)):
        stage.add(query.source, range(rows, rows + 30))
        stage.must_carry(query)
        rows += 30
    stage.repeats(query.but(checkpoint=older), SET_BACK, once(range(rows)))
    stage.add(query.source, range(rows, rows + 30))
    stage.repeats(query, GOES_ON, once(range(rows + 30)))
    back = query.but(checkpoint=older, options={"txnGoesBackTo": 1})
    stage.repeats(back, GOES_ON, once(range(rows + 30), range(first, rows + 30)))


def _with_a_copy(stage: Stage, draw: random.Random) -> tuple[Query, int, int, Path]:
    """A query that has done two micro-batches, and a copy of its checkpoint from before the second."""
    first, second = 3 * draw.randint(10, 60), 3 * draw.randint(10, 40)
    query = stage.query(draw, first)
    older = query.checkpoint.with_name(f"{query.checkpoint.name}-older")
    stage.must_carry(query)
    shutil.copytree(query.checkpoint, older)
    stage.add(query.source, range(first, first + second))
    stage.must_carry(query)
    stage.holds("the query has done two micro-batches", last_batch(query.checkpoint / "commits") == 1)
    return query, first, second, older
