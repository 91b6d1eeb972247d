"""Promises about writing within `foreachBatch`, with a frame that keeps what it was told."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.spark import write_batch
from penstock.spark.writing.batch_key import BATCH_ID, QUERY_ID, RUN_ID

TOPIC = {"bootstrap": "h:1", "topic": "t"}


class FakeFrame:
    """A frame, its writer, and its session's context in one; tells the local properties of its thread."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties
        self.saved: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.write = self.sparkSession = self.sparkContext = self
        self.given: dict[str, Any] = {}

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def format(self, name: str) -> FakeFrame:
        assert name == "penstock"
        return self

    def options(self, **options: Any) -> FakeFrame:
        self.given = options
        return self

    def mode(self, name: str) -> FakeFrame:
        assert name == "append"
        return self

    def save(self) -> None:
        if self.error is not None:
            raise self.error
        self.saved.append(self.given)


def frame_of(query: str, batch_id: int, run: str = "run-1") -> Any:
    return FakeFrame({QUERY_ID: query, BATCH_ID: str(batch_id), RUN_ID: run})


def test_a_write_is_named_by_query_name_and_batch() -> None:
    frame = frame_of("query-1", 3)
    write_batch(frame, 3, name="one", **TOPIC)
    write_batch(frame, 3, name="two", **TOPIC, **{"kafka.linger.ms": 0})
    assert frame.saved == [
        {**TOPIC, "txnAppId": "query-1/one", "txnVersion": "3", "txnRun": "run-1"},
        {**TOPIC, "kafka.linger.ms": 0, "txnAppId": "query-1/two", "txnVersion": "3", "txnRun": "run-1"},
    ]


def test_two_writes_of_a_batch_with_one_name_would_be_one_and_the_second_is_refused() -> None:
    frame = frame_of("query-2", 3)
    write_batch(frame, 3, name="one", **TOPIC)
    with pytest.raises(ConfigError, match=r"batch 3 has a write with the name 'one' already.*a name of its own"):
        write_batch(frame, 3, name="one", **TOPIC)
    write_batch(frame_of("query-2", 4), 4, name="one", **TOPIC)
    write_batch(frame_of("query-2", 4, "run-2"), 4, name="one", **TOPIC)  # the query was started again
    write_batch(frame_of("query-3", 4), 4, name="one", **TOPIC)


def test_a_write_that_failed_may_be_tried_again() -> None:
    frame = frame_of("query-4", 0)
    frame.error = RuntimeError("a task failed")
    with pytest.raises(RuntimeError):
        write_batch(frame, 0, name="one", **TOPIC)
    frame.error = None
    write_batch(frame, 0, name="one", **TOPIC)
    assert len(frame.saved) == 1


def test_where_the_query_is_not_known_the_application_must_be_given() -> None:
    frame: Any = FakeFrame({})
    with pytest.raises(ConfigError, match=r"cannot tell which query this is.*application=… that no other query has"):
        write_batch(frame, 0, name="one", **TOPIC)
    write_batch(frame, 0, name="one", application="totals", **TOPIC)
    assert frame.saved == [{**TOPIC, "txnAppId": "totals/one", "txnVersion": "0", "txnRun": ""}]


def test_no_two_applications_and_names_are_spelt_alike() -> None:
    """`orders` and `a/b` would be `orders/a` and `b`; `orders` and `a@t` the txnAppId `orders/a` within topic t."""
    frame: Any = FakeFrame({})
    for name in ("a/b", "a@t"):
        with pytest.raises(ConfigError, match="give it a name without them"):
            write_batch(frame, 0, name=name, application="orders", **TOPIC)
    write_batch(frame, 0, name="b", application="orders/a", **TOPIC)
    query = frame_of("query-6", 0)
    write_batch(query, 0, name="a/b", **TOPIC)
    assert [one["txnAppId"] for one in frame.saved + query.saved] == ["orders/a/b", "query-6/a/b"]


@pytest.mark.parametrize(
    ("batch_id", "given", "message"),
    [
        (4, {"name": "one"}, "batch_id=4 in micro-batch 3; pass its own on"),
        (3, {"name": " "}, "needs a name that no other write"),
        (3, {"name": "one", "txnversion": "3"}, "option txnversion is set by write_batch"),
    ],
)
def test_a_wrong_call_is_refused(batch_id: int, given: dict[str, Any], message: str) -> None:
    frame = frame_of("query-5", 3)
    with pytest.raises(ConfigError, match=message):
        write_batch(frame, batch_id, **given, **TOPIC)
    assert not frame.saved
