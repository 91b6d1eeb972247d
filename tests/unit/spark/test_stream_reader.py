"""Promises about streams, without a JVM: the reader is driven as Spark drives it, offsets as JSON between calls."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from penstock.errors import ConfigError, UnknownTopicOrPartitionError
from penstock.spark.options import source_options
from penstock.spark.planning import BrokerBehindError, DataLossError, PlannedTopic
from penstock.spark.positions import GONE_MAX, SourcePositions, StreamPosition, TopicPositions, with_gone
from penstock.spark.schema import source_schema
from penstock.spark.stream_reader import PenstockStreamReader
from penstock.types import EpochEntry, MetadataOffset, TopicPartition
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


@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": "20"}, {"maxBytesPerTrigger": "500"}])
def test_a_limit_is_for_what_is_left_and_not_for_offsets_that_were_deleted(
    client: FakeLogClient, limit: dict[str, str]
) -> None:
    client.append("orders", 1, 900)
    client.delete_below("orders", 0, 90)  # all of it
    one = reader(client, failOnDataLoss="false", **limit)
    at = one.initialOffset()
    client.delete_below("orders", 1, 880)
    batches, end = run_all(one, through_spark(at))
    assert [rows for rows in batches if not rows] == []
    assert sorted(row for rows in batches for row in rows) == [(1, o) for o in range(880, 910)]
    assert SourcePositions.from_json(end).get(TopicPartition("orders", 0)) is not None
    with pytest.raises(DataLossError):
        run_all(reader(client, **limit), through_spark(at))


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
        ("truncated", r"orders-0: the log was truncated at 60, below the 90 of the checkpoint"),
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
    expected = {"retention": 5, "recreated": 6, "truncated": 40}.get(what, 0)
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
        truncate(client, 60, 40)


def truncate(client: FakeLogClient, offset: int, count: int) -> None:
    """A leader that was not in sync is elected: its log has nothing from the offset on, and it appends so many."""
    log = client.logs[TopicPartition("orders", 0)]
    log.batches = [(0, 60, 1000, log.batches[0][3])] if log.batches else []
    log.end, log.epoch, log.epochs = offset, 7, (EpochEntry(5, 0), EpochEntry(7, offset))
    client.append("orders", 0, count)


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
    positions = SourcePositions({"b": TopicPositions("id", {10: StreamPosition(5, 1), 2: StreamPosition(7, 0, 3)})})
    assert SourcePositions.from_json(through_spark(positions.to_json())) == positions
    assert list(positions.to_json()["topics"]["b"]["partitions"]) == ["2", "10"]


@pytest.mark.parametrize("data", [{}, {"orders": {"0": 5}}, {"version": 2, "topics": {}}, []])
def test_an_offset_of_another_source_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match="another source or a newer version"):
        SourcePositions.from_json(data)


def test_a_damaged_offset_is_refused() -> None:
    with pytest.raises(ConfigError, match="damaged offset"):
        SourcePositions.from_json({"version": 1, "topics": {"t": {"id": "x"}}})


# -- answers that are older than the checkpoint ------------------------------------------------------------------------


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("what", ["epoch", "metadata"])
def test_an_answer_that_is_older_than_the_checkpoint_is_an_error_and_no_loss(
    client: FakeLogClient, fail: str, what: str
) -> None:
    client.metadata, log = MetadataOffset("c", 9), client.logs[TopicPartition("orders", 0)]
    log.epoch = 5
    one = reader(client)
    start = one.initialOffset()
    end = through_spark(one.latestOffset(start, ReadAllAvailable()))
    log.end = 40
    if what == "epoch":
        log.epoch = 2
    else:
        client.metadata = MetadataOffset("c", 8)
    again = reader(client, failOnDataLoss=fail)
    with pytest.raises(BrokerBehindError, match=r"is behind the checkpoint: .*Nothing was skipped"):
        again.latestOffset(end, ReadAllAvailable())
    if what == "epoch":  # the metadata is the client's: it has no older answer than it was told (test_log_questions)
        with pytest.raises(BrokerBehindError, match="orders-0 is led in epoch 2, and the checkpoint has 5"):
            again.partitions(start, end)
    assert [positions.metadata for positions in client.remembered][-1] == MetadataOffset("c", 9)


def test_a_target_that_was_asked_for_before_the_checkpoint_was_known_is_asked_for_again(client: FakeLogClient) -> None:
    client.metadata = MetadataOffset("c", 9)
    one = reader(client)
    _, at = run_all(one, one.initialOffset())
    client.metadata = MetadataOffset("c", 4)
    again = reader(client)
    again.prepareForTriggerAvailableNow()
    client.metadata = MetadataOffset("c", 9)
    client.append("orders", 1, 5)
    assert run_all(again, at)[0] == [[(1, offset) for offset in range(10, 15)]]


class LaggingClient(FakeLogClient):
    """The same cluster, as a broker tells it that has not heard of some topics."""

    unheard: frozenset[str] = frozenset()

    def describe(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        return {name: view for name, view in super().describe(topics).items() if name not in self.unheard}

    def list_topics(self) -> list[str]:
        return [name for name in super().list_topics() if name not in self.unheard]


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("how", [{"subscribe": "orders,clicks"}, {"subscribePattern": "orders|clicks"}])
def test_a_topic_that_one_broker_has_not_heard_of_is_read_on_and_once(fail: str, how: dict[str, str]) -> None:
    client = LaggingClient()
    for name in ("orders", "clicks"):
        client.create(name)
        client.append(name, 0, 10)
    one = reader(client, **how, failOnDataLoss=fail)
    start = one.initialOffset()
    end = through_spark(one.latestOffset(start, ReadAllAvailable()))
    client.unheard = frozenset({"clicks"})
    again = reader(client, **how, failOnDataLoss=fail)
    assert len(read(again, start, end)) == 20, "a micro-batch that is planned again"
    client.append("clicks", 0, 1)
    batches, at = run_all(again, end)
    assert batches == [[(0, 10)]]
    client.unheard = frozenset()
    assert run_all(reader(client, **how, failOnDataLoss=fail), at)[0] == []


def test_a_topic_that_was_dropped_and_comes_back_with_its_id_is_not_new(client: FakeLogClient) -> None:
    client.create("clicks")
    client.append("clicks", 0, 10)
    careless = {"subscribe": "orders,clicks", "failOnDataLoss": "false"}
    one = reader(client, **careless)
    _, at = run_all(one, one.initialOffset())
    logs = dict(client.logs)
    client.delete("clicks")
    _, without = run_all(reader(client, **careless), at)
    assert list(without["topics"]) == ["orders"] and without["gone"] == {"id-of-clicks": {"0": [10, 0]}}
    client.ids["clicks"] = "id-of-clicks"
    client.logs |= logs
    client.append("clicks", 0, 2)
    batches, after = run_all(reader(client, **careless), without)
    assert batches == [[(0, 10), (0, 11)]] and "gone" not in after
    client.create("clicks", topic_id="another")
    client.append("clicks", 0, 3)
    assert run_all(reader(client, **careless), after)[0] == [[(0, 0), (0, 1), (0, 2)]]


def test_no_more_than_so_many_topics_that_are_gone_are_kept() -> None:
    before = SourcePositions({f"t{n}": TopicPositions(f"id-{n}", {0: StreamPosition(1)}) for n in range(GONE_MAX + 5)})
    kept = with_gone(before, SourcePositions()).gone
    assert len(kept) == GONE_MAX and f"id-{GONE_MAX + 4}" in kept


def test_a_truncated_log_that_grew_beyond_the_checkpoint_is_told_also_where_the_batch_was_planned_before(
    client: FakeLogClient,
) -> None:
    client.logs[TopicPartition("orders", 0)].epoch = 5
    one = reader(client)
    start = one.initialOffset()
    end = through_spark(one.latestOffset(start, ReadAllAvailable()))
    truncate(client, 60, 500)
    with pytest.raises(DataLossError, match=r"truncated at 60, below the 90 of the checkpoint"):
        reader(client).partitions(start, end)
    careless = reader(client, failOnDataLoss="false")
    first = [row for row in read(careless, start, end) if row[0] == 0]
    batches, at = run_all(careless, end)
    assert first + [row for batch in batches for row in batch] == [(0, offset) for offset in range(560)]
    assert at["topics"]["orders"]["partitions"]["0"] == [560, 7, 60]


def test_a_leader_that_is_elected_cleanly_cuts_nothing(client: FakeLogClient) -> None:
    one = reader(client)
    _, at = run_all(one, one.initialOffset())
    log = client.logs[TopicPartition("orders", 0)]
    log.epoch, log.epochs = 3, (EpochEntry(0, 0), EpochEntry(3, 90))
    client.append("orders", 0, 5)
    assert run_all(reader(client), at)[0] == [[(0, offset) for offset in range(90, 95)]]


def test_an_offset_of_an_earlier_version_is_read_on(client: FakeLogClient) -> None:
    client.metadata = MetadataOffset("c", 9)
    one = reader(client)
    _, at = run_all(one, one.initialOffset())
    assert at["metadata"] == {"cluster": "c", "offset": 9}
    del at["metadata"]
    client.append("orders", 0, 5)
    batches, after = run_all(reader(client), at)
    assert batches == [[(0, offset) for offset in range(90, 95)]]
    assert after["metadata"] == {"cluster": "c", "offset": 9}
    with pytest.raises(ConfigError, match="is not one of the penstock source"):
        SourcePositions.from_json({**after, "version": 2})
