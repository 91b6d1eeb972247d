"""Promises about a write as one atomic batch: what tasks begin, what the driver accepts, and what is refused."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from penstock.errors import (
    AtomicBatchVersionError,
    ConfigError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NetworkError,
    PenstockError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
)
from penstock.spark.writing.batch_key import BATCH_ID, JOB_GROUP, QUERY_ID, RUN_ID, BatchKey, named_within
from penstock.spark.writing.last_will import Will
from penstock.spark.writing.sink import PenstockBatchWriter, PenstockStreamWriter, Written
from penstock.spark.writing.sink_options import sink_options
from tests.support.fake_atomic_batches import FakeAtomicBatches, tools

SCHEMA = StructType().add("value", StringType())
GIVEN = {"bootstrap": "h:1", "topic": "t"}


def rows(*values: str) -> Iterator[Any]:
    """Each in an Arrow batch of its own, and an empty one."""
    return iter([pa.record_batch({"value": pa.array(some, pa.string())}) for some in ([], *([v] for v in values))])


def properties_of(batch_id: int, run: str = "run-1", query: str = "query") -> dict[str, str]:
    return {QUERY_ID: query, BATCH_ID: str(batch_id), RUN_ID: run}


def stream(
    atomic: FakeAtomicBatches, batch_id: int, run: str = "run-1", query: str = "query", **more: str
) -> PenstockStreamWriter:
    properties = {QUERY_ID: query, BATCH_ID: str(batch_id), RUN_ID: run}
    return PenstockStreamWriter(sink_options({**GIVEN, **more}, streaming=True), SCHEMA, tools(atomic, properties))


def batch(atomic: FakeAtomicBatches, properties: dict[str, str] | None = None, **more: str) -> PenstockBatchWriter:
    return PenstockBatchWriter(sink_options({**GIVEN, **more}), SCHEMA, False, tools(atomic, properties))


def values(atomic: FakeAtomicBatches) -> list[str]:
    return sorted((value or b"").decode() for value in atomic.committed)


def test_a_micro_batch_is_named_by_query_batch_and_run_and_counts_when_the_driver_commits() -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 7)
    messages = [writer.write(rows("a", "b")), writer.write(rows("c"))]
    key = BatchKey("query", 7, "run-1")
    assert [(one.rows, one.key, one.writer) for one in messages] == [(2, key, (1000, 0)), (1, key, (1000, 1))]
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
    empty = writer.write(rows())
    assert empty == Written(0, BatchKey("query", 0, "run-1"))
    writer.commit([empty, None], 0)
    assert not atomic.begun and atomic.applications["query"].last == -1


def test_a_micro_batch_that_was_committed_writes_nothing_again_but_takes_its_rows() -> None:
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a", "b"))], 3)
    again, left = stream(atomic, 3, "run-2"), rows("b", "a")
    message = again.write(left)
    assert (message.rows, message.key, message.writer) == (2, BatchKey("query", 3, "run-2"), None) and not list(left)
    again.commit([message, again.write(rows())], 3)
    following = stream(atomic, 4, "run-2")
    following.commit([following.write(rows("c"))], 4)
    assert values(atomic) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("parts", "fact"),
    [
        ((("a", "b"), ("c",)), "with 2 rows, and is repeated with 3 rows, of which none were written"),
        ((("a", "c"),), "with 2 rows, and is repeated with 2 other rows"),
        ((), "with 2 rows, and is repeated with 0 rows"),
    ],
)
def test_a_repetition_with_other_rows_is_told_for_they_would_be_lost(parts: tuple[Any, ...], fact: str) -> None:
    """A checkpoint that lost its newest plan, or is one batch behind, plans that batch anew."""
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a", "b"))], 3)
    again = stream(atomic, 3, "run-2")
    with pytest.raises(AtomicBatchVersionError, match=rf"{fact}.*txnAcceptsRepetition=3.*with a new checkpoint"):
        again.commit([again.write(rows()), *(again.write(rows(*part)) for part in parts)], 3)
    assert values(atomic) == ["a", "b"]


def test_a_repetition_with_other_rows_goes_on_where_its_batch_is_named_and_nowhere_else() -> None:
    """A joined table has grown since the batch was committed: its rows are there, with what was joined then."""
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a1", "b1"))], 3)
    for number, accepts in ((3, "2"), (3, "4")):
        other = stream(atomic, number, "run-2", txnAcceptsRepetition=accepts)
        with pytest.raises(AtomicBatchVersionError):
            other.commit([other.write(rows("a2", "b2"))], number)
    again = stream(atomic, 3, "run-2", txnAcceptsRepetition="3")
    again.commit([again.write(rows("a2", "b2"))], 3)
    following = stream(atomic, 4, "run-2", txnAcceptsRepetition="3")
    following.commit([following.write(rows("c2"))], 4)
    assert values(atomic) == ["a1", "b1", "c2"]


def test_the_same_rows_dealt_otherwise_to_tasks_are_a_repetition() -> None:
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a", "b", "b")), first.write(rows("c"))], 3)
    again = stream(atomic, 3, "run-2")
    again.commit([again.write(rows("b")), again.write(rows("c", "b", "a"))], 3)
    assert values(atomic) == ["a", "b", "b", "c"]


@pytest.mark.parametrize("known", [(2, 0), (-1, 0)])
def test_a_decision_of_an_earlier_version_is_compared_as_far_as_it_tells(known: tuple[int, int]) -> None:
    atomic = FakeAtomicBatches()
    first = stream(atomic, 3)
    first.commit([first.write(rows("a", "b"))], 3)
    atomic.applications["query"].records, atomic.applications["query"].checksum = known
    again = stream(atomic, 3, "run-2")
    again.commit([again.write(rows("a", "c"))], 3)
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
        with pytest.raises(PenstockError, match=r"it is a copy, and another run .*txnGoesBackTo=4"):
            stream(atomic, 4, "run-2", **more).write(rows("4"))
    for number in (4, 5):  # and from there on as ever
        writer = stream(atomic, number, "run-2", txnGoesBackTo="4")
        writer.commit([writer.write(rows(str(number)))], number)
    assert values(atomic) == ["4", "5", "8", "9"]


def test_a_stream_of_an_earlier_spark_has_its_run_as_its_job_group() -> None:
    atomic = FakeAtomicBatches()
    properties = {QUERY_ID: "query", BATCH_ID: "1", JOB_GROUP: "run-1"}
    writer = PenstockStreamWriter(sink_options(GIVEN, streaming=True), SCHEMA, tools(atomic, properties))
    assert writer.write(rows("a")).key == BatchKey("query", 1, "run-1")


@pytest.mark.parametrize("missing", [QUERY_ID, BATCH_ID, RUN_ID])
def test_a_stream_whose_task_is_not_told_its_name_writes_nothing(missing: str) -> None:
    atomic = FakeAtomicBatches()
    properties = {QUERY_ID: "query", BATCH_ID: "1", RUN_ID: "run"}
    del properties[missing]
    writer = PenstockStreamWriter(sink_options(GIVEN, streaming=True), SCHEMA, tools(atomic, properties))
    with pytest.raises(ConfigError, match=f"{re.escape(missing)}.*semantics=at-least-once"):
        writer.write(rows())
    assert not atomic.begun


@pytest.mark.parametrize("failure", [RuntimeError("upstream"), EOFError("killed"), SystemExit(1)])
def test_a_task_that_fails_or_is_killed_aborts_what_it_wrote_and_no_other_attempts(failure: BaseException) -> None:
    atomic = FakeAtomicBatches()
    writer = stream(atomic, 0)

    def broken() -> Iterator[Any]:
        yield pa.record_batch({"value": ["a"]})
        raise failure

    finished = writer.write(rows("b"))
    with pytest.raises(type(failure)):
        writer.write(broken())
    assert [one.is_aborted for one in atomic.begun] == [False, True] and all(one.is_closed for one in atomic.begun)
    assert len(atomic.wills.all) == 2 and not atomic.wills.left
    writer.commit([finished, writer.write(rows("a"))], 0)
    assert values(atomic) == ["a", "b"]


def test_a_task_leaves_its_will_before_its_first_record_and_revokes_it_when_it_has_ended() -> None:
    atomic = FakeAtomicBatches()
    found: list[Any] = []

    def looked_at() -> Iterator[Any]:
        yield pa.record_batch({"value": ["a"]})
        found.extend((list(atomic.wills.left), len(atomic.begun[0].sent)))
        yield pa.record_batch({"value": ["b"]})

    writer = stream(atomic, 3, **{"kafka.client.id": "me"})
    message = writer.write(looked_at())
    assert found == [[Will("h:1", "query", "run-1", 1000, 0, {"client_id": "me"})], 1] and not atomic.wills.left
    writer.commit([message], 3)
    stream(atomic, 3).write(rows("a", "b"))
    stream(atomic, 4).write(rows())
    assert len(atomic.wills.all) == 1  # none for what is committed, or empty


def test_a_task_whose_rows_were_cut_off_has_not_ended_and_aborts_what_it_wrote() -> None:
    """pyarrow sees an end like any other where a user's function in front of the sink has failed."""
    atomic = FakeAtomicBatches()
    atomic.is_cut_off = True
    for writer in (stream(atomic, 3), batch(atomic)):
        with pytest.raises(PenstockError, match="failed in front of the sink, after 2 rows"):
            writer.write(rows("a", "b"))
    assert [one.is_aborted for one in atomic.begun] == [True, True] and not atomic.wills.left


def test_a_batch_writes_tasks_leave_wills_too() -> None:
    atomic = FakeAtomicBatches()
    key = batch(atomic).write(rows("a")).key
    named = batch(atomic, txnAppId="job", txnVersion="1", txnRun="run-1").write(rows("a")).key
    assert [(will.application, will.run) for will in atomic.wills.all] == [
        (key.application, key.run),
        (named.application, "run-1"),
    ]


def test_an_abort_that_fails_does_not_hide_why_the_task_failed() -> None:
    atomic = FakeAtomicBatches()

    def broken() -> Iterator[Any]:
        yield pa.record_batch({"value": ["a"]})
        atomic.begun[0].abort_error = InvalidRequestError("version -2 is below -1")  # a broker of an earlier version
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError, match="upstream"):
        stream(atomic, 0).write(broken())
    assert atomic.begun[0].is_closed and len(atomic.wills.left) == 1  # tried again when its process ends


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
    within = {QUERY_ID: "query", BATCH_ID: "3", RUN_ID: "run-1"}
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
    for more in ({}, {"txnRun": "run-1"}):  # by itself, and of write_batch
        named = batch(atomic, txnAppId="job", txnVersion="1", **more)
        named.write(rows("a"))
        named.abort([None])
    assert {one.open_version for one in atomic.applications.values()} == {-1}


def test_a_batch_write_with_a_name_is_written_once_however_often_it_runs() -> None:
    atomic = FakeAtomicBatches()
    for _ in range(2):
        writer = batch(atomic, txnAppId="job", txnVersion="20260101")
        writer.commit([writer.write(rows("a"))])
    assert values(atomic) == ["a"]
    assert list(atomic.applications) == ["job@t"] and not atomic.one_off


def test_one_name_for_two_topics_is_two_writes() -> None:
    """Delta's idiom, whose name is within a table: one txnAppId and txnVersion for all outputs of a micro-batch."""
    atomic = FakeAtomicBatches()
    for _ in range(2):
        for topic in ("orders", "orders-audit", ""):
            more = {"topic": topic} if topic else {}
            given = {"bootstrap": "h:1", "txnAppId": "job", "txnVersion": "7", **more}
            schema = SCHEMA if topic else StructType().add("value", StringType()).add("topic", StringType())
            writer = PenstockBatchWriter(sink_options(given), schema, False, tools(atomic))
            part = pa.record_batch({"value": [topic or "each"], **({} if topic else {"topic": ["more"]})})
            writer.commit([writer.write(iter([part]))])
    assert values(atomic) == ["each", "orders", "orders-audit"]


def test_no_two_names_within_topics_are_one_application() -> None:
    long, topic = "j" * 200, "t" * 249
    pairs = [
        ("job", "a"),
        ("job@a", ""),
        ("job", ""),
        ("job@a", "b"),
        (long, topic),
        (long, topic[1:]),
        (long[1:], topic),
    ]
    found = {named_within(*pair) for pair in pairs}
    assert len(found) == len(pairs) and all(len(one) <= 200 and "#" not in one for one in found)


def test_what_an_earlier_version_committed_under_a_name_without_a_topic_is_not_written_again() -> None:
    atomic = FakeAtomicBatches()
    earlier = batch(atomic, txnAppId="job", txnVersion="7", txnRun="")  # a name as it was then
    earlier.commit([earlier.write(rows("a"))])
    again = batch(atomic, txnAppId="job", txnVersion="7")
    again.commit([again.write(rows("a"))])
    lower = batch(atomic, txnAppId="job", txnVersion="6")
    with pytest.raises(AtomicBatchVersionError, match=r"the version is older .*txnGoesBackTo=6"):
        lower.commit([lower.write(rows("c"))])
    following = batch(atomic, txnAppId="job", txnVersion="8")
    following.commit([following.write(rows("b"))])
    assert values(atomic) == ["a", "b"]


@pytest.mark.parametrize(("job", "more"), [("job@t", {}), ("app/job", {"txnRun": "run-1"})])
def test_a_name_that_another_write_has_today_is_not_taken_for_an_earlier_versions(
    job: str, more: dict[str, str]
) -> None:
    """The write `job` to topic t, and the write_batch `job` of an application, are spelt as these jobs are."""
    atomic = FakeAtomicBatches()
    other = batch(atomic, txnAppId="app/job" if more else "job", txnVersion="7", **more)
    other.commit([other.write(rows("a"))])
    again = batch(atomic, txnAppId=job, txnVersion="7")
    with pytest.raises(AtomicBatchVersionError, match=r"txnAcceptsRepetition=7 goes on.*txnGoesBackTo=7 writes"):
        again.commit([again.write(rows("a"))])
    assert values(atomic) == ["a"]
    accepted = batch(atomic, txnAppId=job, txnVersion="7", txnAcceptsRepetition="7")
    accepted.commit([accepted.write(rows("a"))])
    assert values(atomic) == ["a"]
    back = batch(atomic, txnAppId=job, txnVersion="7", txnGoesBackTo="7")
    back.commit([back.write(rows("a"))])
    repeated = batch(atomic, txnAppId=job, txnVersion="7")
    repeated.commit([repeated.write(rows("a"))])
    assert values(atomic) == ["a", "a"]


def test_a_coordinator_of_an_earlier_version_is_asked_in_its_own_words() -> None:
    atomic = FakeAtomicBatches()
    earlier = batch(atomic, txnAppId="job", txnVersion="7", txnRun="")
    earlier.commit([earlier.write(rows("a"))])
    atomic.question_error = InvalidRequestError("version -2 of application 'job' is below -1")
    for version in ("7", "8"):
        again = batch(atomic, txnAppId="job", txnVersion=version)
        again.commit([again.write(rows(version))] if version == "8" else [again.write(rows("a"))])
    assert values(atomic) == ["8", "a"]


def test_a_user_without_the_right_is_refused_on_the_driver_before_a_task_begins() -> None:
    atomic = FakeAtomicBatches()
    writer = batch(atomic)
    writer.check_rights()
    assert not atomic.begun and not atomic.applications
    atomic.question_error = NetworkError("left to the tasks, which have more patience")
    writer.check_rights()
    atomic.question_error = TransactionalIdAuthorizationFailedError("may not write")
    with pytest.raises(TransactionalIdAuthorizationFailedError, match="--role spark-sink --topic t"):
        writer.check_rights()
    batch(atomic, semantics="at-least-once").check_rights()


@pytest.mark.parametrize(("took_ms", "is_warned"), [(29_999, False), (30_000, True)])
def test_a_batch_that_took_half_of_its_time_is_a_warning(
    caplog: pytest.LogCaptureFixture, took_ms: int, is_warned: bool
) -> None:
    """Spark repeats a micro-batch that took too long as it was planned, so afterwards it cannot be made smaller."""
    times = iter((1_000_000, 1_000_000 + took_ms))
    clocked = replace(tools(FakeAtomicBatches(), properties_of(5)), wall_ms=lambda: next(times))
    given = sink_options({**GIVEN, "kafka.transaction.timeout.ms": "60000"}, streaming=True)
    writer = PenstockStreamWriter(given, SCHEMA, clocked)
    writer.commit([writer.write(rows("a"))], 5)
    text = "version 5 of 'query' took 30 s of the 60 s that kafka.transaction.timeout.ms gives it"
    assert [message[: len(text)] for message in caplog.messages] == [text] * is_warned


def test_a_named_write_within_foreach_batch_belongs_to_the_querys_run() -> None:
    atomic = FakeAtomicBatches()
    within = {QUERY_ID: "query", BATCH_ID: "3", RUN_ID: "run-1"}
    message = batch(atomic, within, txnAppId="job", txnVersion="3").write(rows("a"))
    assert message.key == BatchKey("job@t", 3, "run-1")
    group = "0a1b2c3d-0000-4000-8000-000000000000"
    for more, run in (
        ({JOB_GROUP: group}, group),
        ({JOB_GROUP: "a label for the UI"}, "spark-write-"),
        ({}, "spark-write-"),
    ):
        properties = {QUERY_ID: "query", BATCH_ID: "3", **more}
        key = batch(atomic, properties, txnAppId=f"job{len(atomic.begun)}", txnVersion="3").write(rows("a")).key
        assert key.run.startswith(run)
    outside = batch(atomic, {JOB_GROUP: group}, txnAppId="other", txnVersion="3").write(rows("a"))
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
    with pytest.raises(TransactionAbortedError, match=r"set a larger kafka\.transaction\.timeout\.ms"):
        stream(atomic, 0).write(rows("a"))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (InvalidTransactionTimeoutError("too long"), "kafka.transaction.timeout.ms is 900000: set less"),
        (InvalidTxnStateError("aborted"), "version 0 of 'query' was aborted.*kafka.transaction.timeout.ms=900000"),
        (UnsupportedVersionError("old"), "update them, or set semantics=at-least-once"),
    ],
)
def test_a_refusal_tells_what_to_do(error: PenstockError, remedy: str) -> None:
    atomic = FakeAtomicBatches()
    atomic.error = error
    with pytest.raises(type(error), match=remedy):
        stream(atomic, 0).write(rows("a"))
