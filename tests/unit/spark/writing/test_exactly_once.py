"""Promises about a write as one atomic batch: what tasks begin, what the driver accepts, and what is refused."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from penstock.errors import (
    AtomicBatchVersionError,
    ConfigError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NetworkError,
    PenstockError,
    ProducerFencedError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from penstock.spark.writing.batch_key import BATCH_ID, QUERY_ID, RUN, BatchKey
from penstock.spark.writing.sink import PenstockBatchWriter, PenstockStreamWriter, Written
from penstock.spark.writing.sink_options import sink_options
from tests.support.fake_atomic_batches import FakeAtomicBatches, tools

SCHEMA = StructType().add("value", StringType())
GIVEN = {"bootstrap": "h:1", "topic": "t"}


def rows(*values: str) -> Iterator[Any]:
    """Each in an Arrow batch of its own, and an empty one."""
    return iter([pa.record_batch({"value": pa.array(some, pa.string())}) for some in ([], *([v] for v in values))])


def stream(
    atomic: FakeAtomicBatches, batch_id: int, run: str = "run-1", query: str = "query", **more: str
) -> PenstockStreamWriter:
    properties = {QUERY_ID: query, BATCH_ID: str(batch_id), RUN: run}
    return PenstockStreamWriter(sink_options({**GIVEN, **more}, streaming=True), SCHEMA, tools(atomic, properties))


def batch(atomic: FakeAtomicBatches, properties: dict[str, str] | None = None, **more: str) -> PenstockBatchWriter:
    return PenstockBatchWriter(sink_options({**GIVEN, **more}), SCHEMA, False, tools(atomic, properties))


def values(atomic: FakeAtomicBatches) -> list[str]:
    return sorted((value or b"").decode() for value in atomic.committed)


def test_a_micro_batch_is_named_by_query_batch_and_run_and_counts_when_the_driver_commits() -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 7)
    messages = [writer.write(rows("a", "b")), writer.write(rows("c"))]
    assert messages == [
        Written(2, BatchKey("query", 7, "run-1"), (1000, 0)),
        Written(1, BatchKey("query", 7, "run-1"), (1000, 1)),
    ]
    assert all(one.is_closed for one in atomic.begun) and not atomic.committed
    writer.commit(messages, 7)
    assert values(atomic) == ["a", "b", "c"]


def test_only_the_accepted_attempts_count() -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 0)
    writer.write(rows("a"))  # failed later, or the slower twin of a speculative task
    writer.commit([writer.write(rows("a")), writer.write(rows("b"))], 0)
    assert values(atomic) == ["a", "b"]


def test_a_task_without_rows_begins_nothing_and_an_empty_micro_batch_commits_nothing() -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 0)
    assert writer.write(rows()) == Written(0)
    writer.commit([Written(0), None], 0)
    assert not atomic.begun and not atomic.applications


def test_a_micro_batch_that_was_committed_writes_nothing_again_but_takes_its_rows() -> None:
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a", "b"))], 3)
    again, left = stream(atomic, 3, "run-2"), rows("b", "a")
    message = again.write(left)
    assert message == Written(2, BatchKey("query", 3, "run-2")) and not list(left)
    again.commit([message, Written(0)], 3)
    following = stream(atomic, 4, "run-2")
    following.commit([following.write(rows("c"))], 4)
    assert values(atomic) == ["a", "b", "c"]


def test_a_repetition_with_another_number_of_rows_is_told_for_they_would_be_lost() -> None:
    """A checkpoint that is one batch behind plans that batch anew."""
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a", "b"))], 3)
    again = stream(atomic, 3, "run-2")
    with pytest.raises(AtomicBatchVersionError, match=r"with 2 rows, and has 3 now.*go on with a new checkpoint"):
        again.commit([again.write(rows("a", "b")), again.write(rows("c"))], 3)
    assert values(atomic) == ["a", "b"]


def test_what_a_killed_driver_left_open_is_not_committed_by_the_next_run() -> None:
    atomic = FakeAtomicBatches()
    stream(atomic, 0).write(rows("a"))
    again = stream(atomic, 0, "run-2")
    again.commit([again.write(rows("a"))], 0)
    assert values(atomic) == ["a"]


def test_two_runs_of_one_query_are_told_apart_and_the_remedy_is_told() -> None:
    atomic = FakeAtomicBatches()
    one, copy = stream(atomic, 5, "run-1"), stream(atomic, 5, "run-2")
    message = one.write(rows("a"))
    copy.commit([copy.write(rows("a"))], 5)
    with pytest.raises(ProducerFencedError, match=r"another run writes as 'query'.*copy of its checkpoint"):
        one.commit([message], 5)
    with pytest.raises(ProducerFencedError, match="give the other a new checkpoint"):
        stream(atomic, 6, "run-1").write(rows("b"))
    assert values(atomic) == ["a"]


def test_a_version_below_the_last_one_is_refused_unless_it_is_the_one_that_is_named() -> None:
    atomic = FakeAtomicBatches()
    for number in (8, 9):
        writer = stream(atomic, number)
        writer.commit([writer.write(rows(str(number)))], number)
    for more in ({}, {"txnGoesBackTo": "6"}):
        with pytest.raises(PenstockError, match=r"txnGoesBackTo=4"):
            stream(atomic, 4, "run-2", **more).write(rows("4"))
    for number in (4, 5):  # and from there on as ever
        writer = stream(atomic, number, "run-2", txnGoesBackTo="4")
        writer.commit([writer.write(rows(str(number)))], number)
    assert values(atomic) == ["4", "5", "8", "9"]


@pytest.mark.parametrize("missing", [QUERY_ID, BATCH_ID, RUN])
def test_a_stream_whose_task_is_not_told_its_name_writes_nothing(missing: str) -> None:
    atomic = FakeAtomicBatches()
    told = {QUERY_ID: "query", BATCH_ID: "1", RUN: "run"}
    del told[missing]
    writer = PenstockStreamWriter(sink_options(GIVEN, streaming=True), SCHEMA, tools(atomic, told))
    with pytest.raises(ConfigError, match=f"{re.escape(missing)}.*semantics=at-least-once"):
        writer.write(rows())
    assert not atomic.begun


def test_a_task_that_fails_closes_its_writer() -> None:
    atomic = FakeAtomicBatches()

    def broken() -> Iterator[Any]:
        yield pa.record_batch({"value": ["a"]})
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError, match="upstream"):
        stream(atomic, 0).write(broken())
    assert atomic.begun[0].is_closed and not atomic.committed


def test_tasks_that_do_not_agree_commit_nothing() -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 1)
    message = writer.write(rows("a"))
    for other in (Written(1, BatchKey("query", 1, "run-1")), Written(1, BatchKey("query", 2, "run-1"), (7, 0))):
        with pytest.raises(PenstockError, match="do not agree"):
            writer.commit([message, other], 1)
    assert not atomic.committed


def test_abort_goes_as_far_as_the_driver_knows_and_an_error_of_it_ends_nothing() -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 1)
    message = writer.write(rows("a"))
    writer.abort([None, message], 1)
    assert atomic.aborts == [("query", 1, "run-1")]
    writer.abort([None, None], 1)
    atomic.error = NetworkError("gone")
    writer.abort([message], 1)
    assert len(atomic.aborts) == 1


def test_a_batch_write_is_an_atomic_batch_of_its_own_also_in_foreach_batch() -> None:
    atomic = FakeAtomicBatches()
    within = {QUERY_ID: "query", BATCH_ID: "3", RUN: "run-1"}
    for properties in (None, within, within):  # two writes of one micro-batch are two writes
        writer = batch(atomic, properties)
        copies = [pickle.loads(pickle.dumps(writer._name)), writer._name]
        assert len(set(copies)) == 1
        messages = [writer.write(rows("a")), writer.write(rows("b"))]
        assert messages[0].key == messages[1].key
        writer.commit(messages)
    assert values(atomic) == ["a", "a", "a", "b", "b", "b"]
    assert len(atomic.applications) == 3 and atomic.one_off == atomic.applications.keys()


def test_a_batch_write_that_fails_is_aborted_though_no_task_tells_its_name() -> None:
    atomic = FakeAtomicBatches()
    writer = batch(atomic)
    writer.write(rows("a"))
    writer.abort([None])
    assert [one.open_version for one in atomic.applications.values()] == [-1]
    named = batch(atomic, txnAppId="job", txnVersion="1")
    named.write(rows("a"))
    named.abort([None])  # its run is not known to the driver
    assert len(atomic.aborts) == 1


def test_a_batch_write_with_a_name_is_written_once_however_often_it_runs() -> None:
    atomic = FakeAtomicBatches()
    for _ in range(2):
        writer = batch(atomic, txnAppId="job", txnVersion="20260101")
        writer.commit([writer.write(rows("a"))])
    assert values(atomic) == ["a"]
    assert list(atomic.applications) == ["job"] and not atomic.one_off


def test_a_named_write_within_foreach_batch_belongs_to_the_querys_run() -> None:
    atomic = FakeAtomicBatches()
    within = {QUERY_ID: "query", BATCH_ID: "3", RUN: "run-1"}
    message = batch(atomic, within, txnAppId="job", txnVersion="3").write(rows("a"))
    assert message.key == BatchKey("job", 3, "run-1")
    outside = batch(atomic, {RUN: "a job group of the user"}, txnAppId="other", txnVersion="3").write(rows("a"))
    assert outside.key.run.startswith("spark-write-")


def test_the_time_out_is_the_option_and_fifteen_minutes_without_it() -> None:
    atomic = FakeAtomicBatches()
    stream(atomic, 0).write(rows("a"))
    stream(atomic, 0, **{"kafka.transaction.timeout.ms": "70000"}).write(rows("a"))
    assert atomic.timeouts_ms == [900_000, 70_000]


def test_a_row_that_failed_is_no_matter_of_time() -> None:
    atomic = FakeAtomicBatches()
    atomic.error = TransactionAbortedError("a record was lost")
    atomic.error.__cause__ = MessageTooLargeError("too large")
    with pytest.raises(TransactionAbortedError, match=r"^a record was lost$"):
        stream(atomic, 0).write(rows("a"))
    atomic.error.__cause__ = InvalidTxnStateError("aborted")
    with pytest.raises(TransactionAbortedError, match="a batch must take less time"):
        stream(atomic, 0).write(rows("a"))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (InvalidTransactionTimeoutError("too long"), "set kafka.transaction.timeout.ms, now 900000"),
        (InvalidTxnStateError("aborted"), "version 0 of 'query' was aborted.*kafka.transaction.timeout.ms=900000"),
        (UnsupportedVersionError("old"), "update them, or set semantics=at-least-once"),
    ],
)
def test_a_refusal_tells_what_to_do(error: PenstockError, remedy: str) -> None:
    atomic = FakeAtomicBatches()
    atomic.error = error
    with pytest.raises(type(error), match=remedy):
        stream(atomic, 0).write(rows("a"))
