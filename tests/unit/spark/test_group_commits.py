"""A stream commits where it stands to a group, which ends nothing if it fails; a read may begin where a group is."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError, CoordinatorNotAvailableError, NonEmptyGroupError
from penstock.spark.groups import group_commits
from penstock.spark.options import source_options
from penstock.spark.planning import OffsetAt
from penstock.types import TopicPartition
from tests.support.fake_log_client import FakeLogClient
from tests.unit.spark.test_stream_reader import client as client
from tests.unit.spark.test_stream_reader import read, reader, run_all, through_spark

GROUP = {"kafka.group.id": "g", "commitOffsetsToGroup": "true"}
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_micro_batch_is_committed_when_spark_asks_for_the_next_one(client: FakeLogClient) -> None:
    one = reader(client, **GROUP)
    start = one.initialOffset()
    end = one.latestOffset(through_spark(start), one.getDefaultReadLimit())
    read(one, start, end)
    assert client.commits == 0, "it is not processed yet"
    assert one.latestOffset(through_spark(end), one.getDefaultReadLimit()) == through_spark(end)
    one.commit(through_spark(end))
    assert client.groups == {"g": {T0: OffsetAt(90, 0), T1: OffsetAt(10, 0)}} and client.commits == 1
    one.latestOffset(through_spark(end), one.getDefaultReadLimit())
    assert client.commits == 1, "nothing has changed"
    again = reader(client, **GROUP)
    again.latestOffset(through_spark(end), again.getDefaultReadLimit())
    assert client.commits == 2, "a query that is started again tells what its last life could not"


def test_without_the_option_nothing_is_committed(client: FakeLogClient) -> None:
    one = reader(client, **{"kafka.group.id": "g"})
    _, at = run_all(one, one.initialOffset())
    one.commit(at)
    assert client.commits == 0


def test_a_commit_that_fails_is_told_and_the_stream_goes_on(
    client: FakeLogClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(group_commits.time, "monotonic", lambda: now)
    client.commit_refusals = [NonEmptyGroupError("group 'g' has members"), CoordinatorNotAvailableError("none")]
    one = reader(client, **GROUP)
    with caplog.at_level(logging.WARNING):
        batches, at = run_all(one, one.initialOffset())
    assert len(batches) == 1 and client.commits == 1
    assert "the stream goes on, and its place was not committed to group g: none" in caplog.text
    one.latestOffset(at, one.getDefaultReadLimit())
    assert client.commits == 1, "not at every micro-batch"
    now += group_commits.COMMIT_PAUSE_S
    one.latestOffset(at, one.getDefaultReadLimit())
    now += group_commits.COMMIT_PAUSE_S
    one.latestOffset(at, one.getDefaultReadLimit())
    assert client.commits == 3 and client.groups["g"][T0].offset == 90


def test_a_stream_begins_where_the_group_has_committed_and_else_at_the_beginning(client: FakeLogClient) -> None:
    client.groups["g"] = {T0: OffsetAt(88, 0)}
    one = reader(client, startingOffsets="group", **{"kafka.group.id": "g"})
    batches, _ = run_all(one, one.initialOffset())
    assert sorted(batches[0]) == [(0, 88), (0, 89)] + [(1, n) for n in range(10)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": "group"}, "startingOffsets=group needs kafka.group.id"),
        ({"commitOffsetsToGroup": "true"}, "commitOffsetsToGroup=true needs kafka.group.id"),
        ({"commitOffsetsToGroup": "yes", "kafka.group.id": "g"}, "must be true or false"),
        ({"startingOffsets": "group", "kafka.group.id": ""}, "must have 1 to 255 characters"),
        ({"startingOffsets": "group", "kafka.group.id": "g" * 300}, "must have 1 to 255 characters"),
    ],
)
def test_an_option_of_groups_that_cannot_be_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        source_options({"bootstrap": "h:1", "subscribe": "orders", **options}, streaming=True)


def test_batch_reads_commit_nothing_and_end_at_no_group() -> None:
    base = {"bootstrap": "h:1", "subscribe": "orders", "kafka.group.id": "g"}
    with pytest.raises(ConfigError, match="commitOffsetsToGroup is for streams"):
        source_options({**base, "commitOffsetsToGroup": "true"}, streaming=False)
    with pytest.raises(ConfigError, match="endingOffsets='group' must be"):
        source_options({**base, "endingOffsets": "group"}, streaming=False)
    assert source_options({**base, "startingOffsets": "group"}, streaming=False).without_effect == ()
