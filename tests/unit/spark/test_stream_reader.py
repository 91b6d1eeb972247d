"""Promises about streams, without a JVM: the reader is driven as Spark drives it, offsets as JSON between calls."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from penstock.errors import ConfigError, UnknownTopicOrPartitionError
from penstock.spark.options import source_options
from penstock.spark.planning import DataLossError
from penstock.spark.positions import Position, SourcePositions, TopicPositions
from penstock.spark.schema import source_schema
from penstock.spark.stream_reader import PenstockStreamReader
from penstock.types import TopicPartition
from tests.support.fake_log_client import FakeLogClient


@pytest.fixture
def client() -> FakeLogClient:
    fake = FakeLogClient()
    fake.create("orders", 2)
    fake.append("orders", 0, 90)
    fake.append("orders", 1, 10)
    return fake


def reader(client: FakeLogClient, **more: str) -> PenstockStreamReader:
    base = {"bootstrap": "h:1", "startingOffsets": "earliest"}
    if "subscribePattern" not in more:
        base["subscribe"] = "orders"
    options = source_options({**base, **more}, streaming=True)
    return PenstockStreamReader(options, source_schema(False), lambda _: client)


def through_spark(offset: dict[str, Any]) -> dict[str, Any]:
    """Spark keeps offsets as JSON text."""
    return json.loads(json.dumps(offset))  # type: ignore[no-any-return]


def read(one: PenstockStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    """(partition, offset) of every row of a micro-batch."""
    found = []
    for partition in one.partitions(through_spark(start), through_spark(end)):
        for batch in one.read(partition):
            found += list(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
    return found


def run_all(one: PenstockStreamReader, start: dict[str, Any]) -> tuple[list[list[tuple[int, int]]], dict[str, Any]]:
    """Micro-batches until there is nothing new."""
    batches = []
    while (end := one.latestOffset(through_spark(start), one.getDefaultReadLimit())) != start:
        batches.append(read(one, start, end))
        start = through_spark(end)
    return batches, start


def test_a_stream_reads_everything_once_and_then_only_what_is_new(client: FakeLogClient) -> None:
    one = reader(client)
    batches, at = run_all(one, one.initialOffset())
    assert sorted(batches[0]) == [(0, o) for o in range(90)] + [(1, o) for o in range(10)]
    client.append("orders", 1, 5)
    assert run_all(one, at)[0] == [[(1, o) for o in range(10, 15)]]


def test_an_offset_that_did_not_move_is_returned_as_it_was(client: FakeLogClient) -> None:
    one = reader(client)
    start = one.initialOffset()
    end = through_spark(one.latestOffset(start, ReadAllAvailable()))
    client.logs[TopicPartition("orders", 0)].epoch = 3
    assert json.dumps(one.latestOffset(end, ReadAllAvailable())) == json.dumps(end)


def test_max_offsets_per_trigger_is_shared_by_lag(client: FakeLogClient) -> None:
    one = reader(client, maxOffsetsPerTrigger="20")
    assert one.getDefaultReadLimit() == ReadMaxRows(20)
    batches, _ = run_all(one, one.initialOffset())
    assert [len(batch) for batch in batches] == [20] * 5
    assert batches[0] == [(0, o) for o in range(18)] + [(1, 0), (1, 1)]
    assert len({row for batch in batches for row in batch}) == 100


def test_available_now_ends_where_the_log_ended_when_it_began(client: FakeLogClient) -> None:
    one = reader(client, maxOffsetsPerTrigger="30")
    one.prepareForTriggerAvailableNow()
    client.append("orders", 0, 50)
    client.grow("orders", 3)
    batches, _ = run_all(one, one.initialOffset())
    assert sum(map(len, batches)) == 100


def test_a_restart_plans_its_last_batch_from_the_offsets_alone(client: FakeLogClient) -> None:
    first = reader(client)
    start = first.initialOffset()
    end = first.latestOffset(start, ReadAllAvailable())
    client.append("orders", 0, 7)
    again = reader(client)
    again.prepareForTriggerAvailableNow()
    assert sorted(read(again, start, end)) == sorted(read(first, start, end))


def test_a_new_partition_is_read_from_its_beginning_also_after_a_restart(client: FakeLogClient) -> None:
    one = reader(client)
    _, at = run_all(one, one.initialOffset())
    client.grow("orders", 3)
    client.append("orders", 2, 8)
    client.delete_below("orders", 2, 3)
    end = through_spark(one.latestOffset(at, ReadAllAvailable()))
    assert end["topics"]["orders"]["partitions"]["2"] == [8, 0, 3]
    assert read(reader(client), at, end) == [(2, o) for o in range(3, 8)]


def test_a_partition_that_the_topic_gets_after_a_query_began_at_the_end_is_read_from_its_first_record(
    client: FakeLogClient,
) -> None:
    one = reader(client, startingOffsets="latest")
    start = through_spark(one.initialOffset())
    client.grow("orders", 4)
    client.append("orders", 2, 3)
    batches, at = run_all(one, start)
    assert [row for batch in batches for row in batch] == [(2, 0), (2, 1), (2, 2)]
    client.append("orders", 3, 2)
    assert run_all(reader(client, startingOffsets="latest"), at)[0] == [[(3, 0), (3, 1)]]


def test_a_partition_that_a_broker_has_not_heard_of_keeps_its_place(client: FakeLogClient) -> None:
    """A driver that starts anew may ask a broker whose metadata is older than the checkpoint."""
    one = reader(client)
    client.grow("orders", 3)
    client.append("orders", 2, 8)
    _, at = run_all(one, one.initialOffset())
    unheard = client.logs.pop(TopicPartition("orders", 2))
    client.append("orders", 0, 1)
    batches, lagging = run_all(reader(client), at)
    assert batches == [[(0, 90)]] and lagging["topics"]["orders"]["partitions"]["2"] == [8, 0]
    client.logs[TopicPartition("orders", 2)] = unheard
    client.append("orders", 2, 1)
    assert run_all(reader(client), lagging)[0] == [[(2, 8)]]


def test_a_range_of_a_partition_that_a_broker_has_not_heard_of_is_not_lost(client: FakeLogClient) -> None:
    client.grow("orders", 3)
    client.append("orders", 2, 8)
    one = reader(client, failOnDataLoss="false")
    start = one.initialOffset()
    end = one.latestOffset(start, ReadAllAvailable())
    del client.logs[TopicPartition("orders", 2)]
    with pytest.raises((UnknownTopicOrPartitionError, KeyError), match="orders"):
        reader(client, failOnDataLoss="false").partitions(start, end)


def test_a_pattern_finds_topics_that_are_made_later(client: FakeLogClient) -> None:
    one = reader(client, subscribePattern="ord.*")
    _, at = run_all(one, one.initialOffset())
    client.create("ordinary")
    client.append("ordinary", 0, 4)
    assert run_all(one, at)[0] == [[(0, o) for o in range(4)]]


def test_latest_is_in_sparks_log_from_the_start_of_the_query_on(client: FakeLogClient) -> None:
    one = reader(client, startingOffsets="latest")
    start = through_spark(one.initialOffset())
    end = through_spark(one.latestOffset(start, ReadAllAvailable()))
    assert end != start, "Spark logs the end of a micro-batch only if it is another offset"
    assert read(one, start, end) == []
    client.append("orders", 0, 5)
    assert run_all(reader(client, startingOffsets="latest"), end)[0] == [[(0, o) for o in range(90, 95)]]


def test_a_crash_in_the_first_micro_batch_does_not_move_latest(client: FakeLogClient) -> None:
    one = reader(client, startingOffsets="latest")
    first = through_spark(one.initialOffset())
    client.append("orders", 0, 5)
    assert one.initialOffset() == first
    logged = one.latestOffset(first, ReadAllAvailable())
    client.append("orders", 0, 5)
    again = reader(client, startingOffsets="latest")
    assert read(again, again.initialOffset(), logged) == [(0, o) for o in range(90, 95)]
    assert run_all(again, through_spark(logged))[0] == [[(0, o) for o in range(95, 100)]]


def test_a_place_in_the_first_micro_batch_does_not_count_in_a_later_one(client: FakeLogClient) -> None:
    one = reader(client)
    end = through_spark(one.latestOffset(one.initialOffset(), ReadAllAvailable()))
    assert end["topics"]["orders"]["partitions"]["0"] == [90, 0, 0]
    assert read(one, end, end) == []
    client.append("orders", 0, 5)
    assert read(one, end, one.latestOffset(end, ReadAllAvailable())) == [(0, o) for o in range(90, 95)]


def test_latest_with_available_now_is_the_end_that_it_goes_to(client: FakeLogClient) -> None:
    one = reader(client, startingOffsets="latest")
    one.prepareForTriggerAvailableNow()
    client.append("orders", 0, 5)
    start = through_spark(one.initialOffset())
    end = through_spark(one.latestOffset(start, ReadAllAvailable()))
    assert read(one, start, end) == []
    assert one.latestOffset(end, ReadAllAvailable()) == end


def test_max_bytes_per_trigger_bounds_a_micro_batch(client: FakeLogClient) -> None:
    client.create("even", 2)
    for _ in range(10):
        client.append("even", 0, 30)
        client.append("even", 1, 10)
    size = sum(len(data) for tp in (0, 1) for *_, data in client.logs[TopicPartition("even", tp)].batches)
    one = reader(client, subscribe="even", maxBytesPerTrigger=str(size // 4))
    assert one.getDefaultReadLimit() == ReadMaxBytes(size // 4)
    batches, _ = run_all(one, one.initialOffset())
    assert 4 <= len(batches) <= 5
    assert all({partition for partition, _ in batch} == {0, 1} for batch in batches[:4])
    assert sorted(row for batch in batches for row in batch) == sorted(
        [(0, o) for o in range(300)] + [(1, o) for o in range(100)]
    )


def test_both_limits_hold_together(client: FakeLogClient) -> None:
    one = reader(client, maxOffsetsPerTrigger="20", maxBytesPerTrigger="1g")
    assert one.getDefaultReadLimit() == ReadMaxRows(20)
    assert [len(batch) for batch in run_all(one, one.initialOffset())[0]] == [20] * 5
    narrow = reader(client, maxOffsetsPerTrigger="20", maxBytesPerTrigger="1")
    assert [len(batch) for batch in run_all(narrow, narrow.initialOffset())[0]][:3] == [2, 2, 2]


def test_trigger_once_has_no_limit(client: FakeLogClient) -> None:
    one = reader(client, maxBytesPerTrigger="1")
    start = one.initialOffset()
    assert len(read(one, start, one.latestOffset(start, ReadAllAvailable()))) == 100
    assert client.sampled == []


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("retention", r"orders-0: offsets \[90, 95\) were deleted before they were read"),
        ("recreated", "topic 'orders' was deleted and created again"),
        ("deleted", "topic 'orders' was deleted"),
        ("shortened", "orders-0: the log ends at 40, before the 90 that was read"),
        ("epoch", "orders-0: the leader epoch went back from 5"),
    ],
)
def test_lost_data_stops_the_query_and_is_only_logged_where_the_user_said_so(
    client: FakeLogClient, caplog: pytest.LogCaptureFixture, what: str, message: str
) -> None:
    client.logs[TopicPartition("orders", 0)].epoch = 5
    one = reader(client)
    _, at = run_all(one, one.initialOffset())
    lose(client, what)
    with pytest.raises(DataLossError, match=message):
        run_all(reader(client), at)
    careless = reader(client, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        batches, _ = run_all(careless, at)
    expected = {"retention": 5, "recreated": 6}.get(what, 0)
    assert len({row for batch in batches for row in batch}) == expected
    assert "failOnDataLoss=false" in caplog.text


def lose(client: FakeLogClient, what: str) -> None:
    log = client.logs[TopicPartition("orders", 0)]
    if what == "retention":
        client.append("orders", 0, 10)
        client.delete_below("orders", 0, 95)
    elif what == "recreated":
        client.create("orders", 2, topic_id="another")
        client.append("orders", 0, 6)
    elif what == "deleted":
        client.delete("orders")
    elif what == "shortened":
        log.end = 40
    else:
        log.epoch = 2


def test_a_topic_made_again_between_plan_and_restart_is_not_read_for_the_old_one(client: FakeLogClient) -> None:
    one = reader(client)
    start = one.initialOffset()
    end = one.latestOffset(start, ReadAllAvailable())
    client.create("orders", 2, topic_id="another")
    client.append("orders", 0, 90)
    with pytest.raises(DataLossError, match="is not the topic that this range was planned for"):
        reader(client).partitions(start, end)


def test_a_subscription_that_names_other_topics_is_not_taken_for_a_deletion(client: FakeLogClient) -> None:
    client.create("bills", 1)
    client.append("bills", 0, 3)
    one = reader(client, subscribe="orders,bills")
    _, at = run_all(one, one.initialOffset())
    client.append("bills", 0, 2)
    with pytest.raises(DataLossError, match=r"has offsets of orders-0, orders-1, .* does not read any more") as caught:
        run_all(reader(client, subscribe="bills"), at)
    assert "subscribe=bills" in str(caught.value) and "deleted" not in str(caught.value)
    batches, _ = run_all(reader(client, subscribe="bills", failOnDataLoss="false"), at)
    assert batches == [[(0, 3), (0, 4)]]
    client.delete("orders")
    with pytest.raises(DataLossError, match="topic 'orders' was deleted"):
        run_all(reader(client, subscribePattern="orders|bills"), at)


def test_a_checkpoint_without_topic_ids_is_read_on(client: FakeLogClient) -> None:
    one = reader(client)
    _, at = run_all(one, one.initialOffset())
    for topic in at["topics"].values():
        del topic["id"]
    assert one.latestOffset(at, ReadAllAvailable()) == at
    client.append("orders", 0, 5)
    batches, after = run_all(reader(client), at)
    assert batches == [[(0, offset) for offset in range(90, 95)]]
    assert after["topics"]["orders"]["id"] == "id-of-orders"


def test_a_topic_that_never_was_is_an_error(client: FakeLogClient) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="'nope' does not exist"):
        reader(client, subscribe="nope").initialOffset()


def test_an_empty_topic_has_no_micro_batch(client: FakeLogClient) -> None:
    client.create("empty", 2)
    one = reader(client, subscribe="empty")
    start = one.initialOffset()
    assert one.latestOffset(start, ReadAllAvailable()) == start
    assert one.partitions(start, start) == []
    assert list(one.read(InputPartition(None))) == []


def test_the_end_that_was_seen_is_reported(client: FakeLogClient) -> None:
    one = reader(client, maxOffsetsPerTrigger="10")
    assert one.reportLatestOffset() is None
    one.latestOffset(one.initialOffset(), ReadMaxRows(10))
    assert (one.reportLatestOffset() or {})["topics"]["orders"]["partitions"] == {"0": [90, 0], "1": [10, 0]}


def test_the_reader_survives_pickling() -> None:
    options = source_options({"bootstrap": "h:1", "subscribe": "orders"}, streaming=True)
    one = PenstockStreamReader(options, source_schema(False))
    assert pickle.loads(pickle.dumps(one)).__dict__ == one.__dict__


def test_positions_go_through_json_unchanged() -> None:
    positions = SourcePositions({"b": TopicPositions("id", {10: Position(5, 1), 2: Position(7, 0, 3)})})
    assert SourcePositions.from_json(through_spark(positions.to_json())) == positions
    assert list(positions.to_json()["topics"]["b"]["partitions"]) == ["2", "10"]


@pytest.mark.parametrize("data", [{}, {"orders": {"0": 5}}, {"version": 2, "topics": {}}, []])
def test_an_offset_of_another_source_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match="another source or a newer version"):
        SourcePositions.from_json(data)


def test_a_damaged_offset_is_refused() -> None:
    with pytest.raises(ConfigError, match="damaged offset"):
        SourcePositions.from_json({"version": 1, "topics": {"t": {"id": "x"}}})
