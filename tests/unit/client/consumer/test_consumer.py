"""The consumer against a fake cluster: positions, ranges, leader changes, truncation, limits, both forms of a poll."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from penstock import Consumer, ConsumerRecord, Producer, TopicPartition
from penstock.errors import (
    ClientClosedError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicOrPartitionError,
)
from penstock.record.builder import build_batch
from penstock.record.reader import read_records
from tests.support.fake_broker import FakeCluster
from tests.support.waiting import wait_until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIME_MS = 1_700_000_000_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as found:
        found.create_topic("t", 2)
        yield found


def fill(cluster: FakeCluster, partition: int, count: int, per_batch: int = 10, first: int = 0) -> None:
    for low in range(first, first + count, per_batch):
        values = [b"%d" % n for n in range(low, min(low + per_batch, first + count))]
        cluster.append("t", partition, build_batch(values, timestamps_ms=TIME_MS + low))


def read(consumer: Consumer, count: int, **options: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    for _ in range(1_000):
        if len(found) >= count:
            return found
        found += consumer.poll(timeout_ms=60_000, **options)
    raise AssertionError(f"only {len(found)} of {count} records came")


def test_records_come_in_order_with_their_places(cluster: FakeCluster) -> None:
    headers = [[("h", b"1")], []]
    cluster.append("t", 0, build_batch([b"a", None], keys=[b"k", None], headers=headers, timestamps_ms=TIME_MS))
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([T0])
        consumer.seek_to_beginning()
        first, second = read(consumer, 2)
        assert first == ConsumerRecord("t", 0, 0, TIME_MS, 0, b"k", b"a", (("h", b"1"),))
        assert (second.offset, second.key, second.value, second.headers) == (1, None, None, ())
        assert consumer.position(T0) == 2
        assert consumer.poll(timeout_ms=0) == []


@pytest.mark.parametrize("given", ["t", ["t"], ["ab"], T0, [("t",)]])
def test_assigning_what_is_no_list_of_partitions_says_what_is_wanted(cluster: FakeCluster, given: object) -> None:
    with Consumer(cluster.bootstrap) as consumer, pytest.raises(TypeError, match=r"a list of TopicPartition\(topic"):
        consumer.assign(given)  # type: ignore[arg-type]


def test_a_loop_over_the_records_gives_each_once_and_leaves_the_position_behind_the_last(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        with pytest.raises(ValueError, match="nothing is assigned"):
            next(consumer)
        consumer.assign([T0])
        found = []
        for record in consumer:
            found.append(record.offset)
            if record.offset == 14:
                break
        assert found == list(range(15))
        assert consumer.position(T0) == 15
        assert [record.offset for record in consumer.poll(timeout_ms=60_000, max_records=2)] == [15, 16]
        assert next(consumer).offset == 17
    with pytest.raises(ClientClosedError):
        next(consumer)


def test_a_time_limit_in_seconds_is_refused(cluster: FakeCluster) -> None:
    with Consumer(cluster.bootstrap) as consumer:
        for poll in (consumer.poll, consumer.poll_arrow):
            with pytest.raises(TypeError, match=r"write poll\(timeout_ms=1000\)"):
                poll(1.0)  # type: ignore[operator]


def test_max_records_is_kept_and_nothing_is_lost_or_repeated(cluster: FakeCluster) -> None:
    fill(cluster, 0, 95)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 3)
        found: list[ConsumerRecord] = []
        while len(found) < 92:
            part = consumer.poll(timeout_ms=60_000, max_records=7)
            assert len(part) <= 7
            found += part
            assert consumer.position(T0) == found[-1].offset + 1
        assert [r.offset for r in found] == list(range(3, 95))
        assert [r.value for r in found] == [b"%d" % n for n in range(3, 95)]


def test_a_poll_and_a_table_continue_each_other(cluster: FakeCluster) -> None:
    pytest.importorskip("pyarrow")
    fill(cluster, 0, 60)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([T0])
        consumer.seek_to_beginning()
        offsets = [r.offset for r in read(consumer, 4, max_records=4)]
        while len(offsets) < 60:
            table = consumer.poll_arrow(timeout_ms=60_000, max_records=7)
            assert table.num_rows <= 7
            offsets += table["offset"].to_pylist()
            offsets += [r.offset for r in consumer.poll(max_records=3)]
        assert offsets == list(range(60))


def test_a_table_has_the_columns_of_kafkas_spark_source(cluster: FakeCluster) -> None:
    pytest.importorskip("pyarrow")
    fill(cluster, 0, 3)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([T0])
        consumer.seek_to_beginning()
        table = consumer.poll_arrow(timeout_ms=60_000, include_headers=True)
        names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
        assert table.column_names == names
        row = table.slice(1, 1).to_pylist()[0]
        assert (row["value"], row["topic"], row["partition"], row["offset"]) == (b"1", "t", 0, 1)
        assert consumer.poll_arrow(timeout_ms=0).num_rows == 0


def test_offsets_can_be_asked_for(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    cluster.delete_below("t", 0, 10)
    with Consumer(cluster.bootstrap) as consumer:
        assert consumer.beginning_offsets([T0, T1]) == {T0: 10, T1: 0}
        assert consumer.end_offsets([T0, T1]) == {T0: 30, T1: 0}
        times = consumer.offsets_for_times({T0: TIME_MS + 15, T1: TIME_MS})
        assert times[T0] == (TIME_MS + 20, 20, 0) and times[T1] is None


def test_seeks_go_where_they_say(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([T0])
        assert consumer.position(T0) == 30  # auto_offset_reset=latest
        consumer.seek_to_beginning(T0)
        assert consumer.position(T0) == 0
        consumer.seek_to_end()
        assert consumer.position(T0) == 30
        consumer.seek(T0, 17)
        assert read(consumer, 1)[0].offset == 17


def test_a_seek_does_not_wait_for_the_request_under_way(cluster: FakeCluster) -> None:
    fill(cluster, 0, 5)
    with Consumer(cluster.bootstrap, fetch_max_wait_ms=60_000) as consumer:
        consumer.assign([T0])
        consumer.seek_to_end()
        assert consumer.poll(timeout_ms=20) == []
        consumer.seek(T0, 2)
        assert read(consumer, 3)[0].offset == 2


def test_new_records_end_a_waiting_poll(cluster: FakeCluster) -> None:
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=60_000) as consumer:
        consumer.assign([T0, T1])
        assert consumer.poll(timeout_ms=20) == []
        fill(cluster, 1, 1)
        assert read(consumer, 1)[0].partition == 1


def test_out_of_range_without_a_policy_tells_both_bounds(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    cluster.delete_below("t", 0, 10)
    with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        with pytest.raises(OffsetOutOfRangeError, match="seek first"):
            consumer.poll()
        for offset in (3, 99):
            consumer.seek(T0, offset)
            with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset} is out of range; readable are 10 to 30"):
                read(consumer, 1)
        consumer.seek(T0, 10)
        assert read(consumer, 1)[0].offset == 10


@pytest.mark.parametrize(("policy", "offset"), [("earliest", 10), ("latest", 30)])
def test_out_of_range_follows_the_policy(cluster: FakeCluster, policy: str, offset: int) -> None:
    fill(cluster, 0, 30)
    cluster.delete_below("t", 0, 10)
    with Consumer(cluster.bootstrap, auto_offset_reset=policy) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 99)
        while consumer.position(T0) == 99:
            consumer.poll(timeout_ms=5, max_records=0)
        assert consumer.position(T0) == offset
        fill(cluster, 0, 1, first=30)
        assert read(consumer, 1)[0].offset == offset
        assert consumer.statistics().fetch.resets == 1


def test_truncation_is_noticed_and_told(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        read(consumer, 30)
        cluster.truncate("t", 0, 20)
        cluster.grow()
        with pytest.raises(LogTruncationError) as caught:
            read(consumer, 1)
        assert caught.value.divergent_offset == 20 and caught.value.position == 30
        consumer.seek(T0, caught.value.divergent_offset)
        fill(cluster, 0, 1, first=77)
        assert read(consumer, 1)[0].value == b"77"


def test_truncation_with_a_policy_goes_on_where_the_log_diverges(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        read(consumer, 30)
        cluster.truncate("t", 0, 20)
        fill(cluster, 0, 1, first=77)
        found = read(consumer, 1)[0]
        assert (found.offset, found.value) == (20, b"77")


def test_a_new_leader_is_followed(cluster: FakeCluster) -> None:
    fill(cluster, 0, 5)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        read(consumer, 5)
        cluster.move_leader("t", 0, 2)
        fill(cluster, 0, 5, first=5)
        assert [r.offset for r in read(consumer, 5)] == [5, 6, 7, 8, 9]


def test_a_broken_stream_is_opened_again(cluster: FakeCluster) -> None:
    fill(cluster, 0, 5)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=1) as consumer:
        consumer.assign([T0])
        read(consumer, 5)
        cluster.break_streams(1)
        fill(cluster, 0, 5, first=5)
        assert len(read(consumer, 5)) == 5
        assert consumer.statistics().fetch.broken_streams >= 1


def test_only_changed_partitions_are_named_again(cluster: FakeCluster) -> None:
    cluster.create_topic("three", 4)  # node 1 leads 0 and 2
    first, second = TopicPartition("three", 0), TopicPartition("three", 2)
    cluster.append("three", 0, build_batch([b"1"], timestamps_ms=TIME_MS))
    with Consumer(cluster.bootstrap, auto_offset_reset="none", fetch_max_wait_ms=50) as consumer:
        consumer.assign([first, second])
        consumer.seek(first, 0)
        consumer.seek(second, 0)
        read(consumer, 1)
        cluster.append("three", 0, build_batch([b"2"], timestamps_ms=TIME_MS))
        read(consumer, 1)
        named = Counter((p.partition, p.fetch_offset) for _, request in cluster.fetches for p in request.partitions)
        assert {(0, 0), (0, 1), (2, 0)} <= named.keys() and named[2, 0] == 1, named


def test_the_buffer_is_bounded(cluster: FakeCluster) -> None:
    for _ in range(50):
        cluster.append("t", 0, build_batch([b"x" * 1_000] * 10, timestamps_ms=TIME_MS))
    with Consumer(cluster.bootstrap, fetch_max_bytes=40_000, max_partition_fetch_bytes=15_000) as consumer:
        consumer.assign([T0])
        consumer.seek_to_beginning()
        found: list[ConsumerRecord] = []
        while len(found) < 500:
            found += consumer.poll(timeout_ms=60_000, max_records=10)
            assert consumer.statistics().buffered_bytes <= 60_000
        assert [r.offset for r in found] == list(range(500))


def test_a_batch_larger_than_every_limit_still_comes(cluster: FakeCluster) -> None:
    cluster.append("t", 0, build_batch([b"x" * 100_000], timestamps_ms=TIME_MS))
    with Consumer(cluster.bootstrap, fetch_max_bytes=1_000, max_partition_fetch_bytes=10) as consumer:
        consumer.assign([T0])
        consumer.seek_to_beginning()
        assert len(read(consumer, 1)[0].value or b"") == 100_000


def test_a_damaged_batch_is_an_error_unless_checks_are_off(cluster: FakeCluster) -> None:
    damaged = bytearray(build_batch([b"abcdef"], timestamps_ms=TIME_MS))
    damaged[-4] ^= 1
    cluster.append("t", 0, bytes(damaged))
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        with pytest.raises(UndecodableBatchError, match="checksum"):
            read(consumer, 1)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", check_crcs=False) as consumer:
        consumer.assign([T0])
        assert len(read(consumer, 1)) == 1


def test_a_poll_that_would_end_empty_names_the_damage_again(cluster: FakeCluster) -> None:
    damaged = bytearray(build_batch([b"abcdef"], timestamps_ms=TIME_MS))
    damaged[-4] ^= 1
    cluster.append("t", 0, bytes(damaged))
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, T1])
        for timeout_ms in (5_000, 0, 0):
            with pytest.raises(UndecodableBatchError, match=r"consumer.seek\(TopicPartition\('t', 0\), 1\)"):
                consumer.poll(timeout_ms)
        fill(cluster, 1, 5)
        assert {record.partition for record in read(consumer, 5)} == {1}
        with pytest.raises(UndecodableBatchError) as caught:
            consumer.poll()
        fill(cluster, 0, 5)
        consumer.seek(T0, caught.value.next_offset)
        assert [record.offset for record in read(consumer, 5)] == [1, 2, 3, 4, 5]
        assert consumer.poll() == []


def test_a_raw_range_is_read_across_a_leader_change(cluster: FakeCluster) -> None:
    fill(cluster, 0, 100)
    with Consumer(cluster.bootstrap, max_partition_fetch_bytes=200, fetch_max_bytes=200) as consumer:
        offsets: list[int] = []
        for number, buffer in enumerate(consumer.fetch_raw("t", 0, 5, 93)):
            if number == 2:
                cluster.move_leader("t", 0, 2)
            offsets += [r.offset for r in read_records(buffer.records, from_offset=buffer.from_offset, to_offset=93)]
        assert offsets == list(range(5, 93))


def test_a_raw_range_outside_the_log_tells_both_bounds(cluster: FakeCluster) -> None:
    fill(cluster, 0, 30)
    cluster.delete_below("t", 0, 10)
    with (
        Consumer(cluster.bootstrap) as consumer,
        pytest.raises(OffsetOutOfRangeError, match="readable are 10 to 30"),
    ):
        list(consumer.fetch_raw("t", 0, 5, 20))


def test_what_does_not_exist_is_named(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.cluster.cluster.UNKNOWN_TOPIC_GRACE_MS", 50)
    with Consumer(cluster.bootstrap, retry_backoff_ms=1) as consumer:
        with pytest.raises(UnknownTopicOrPartitionError, match="'nope' does not exist"):
            consumer.assign([TopicPartition("nope", 0)])
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 1, not 9"):
            consumer.assign([TopicPartition("t", 9)])
        with pytest.raises(UnknownTopicOrPartitionError, match="not assigned"):
            consumer.seek(T0, 0)
        consumer.assign([T0])
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(T0, -1)


def test_a_topic_deleted_under_its_reader_is_told(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.consumer.fetching.positions.UNKNOWN_PARTITION_GRACE_MS", 50)
    fill(cluster, 0, 1)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=5) as consumer:
        consumer.assign([T0])
        read(consumer, 1)
        cluster.topics.pop("t")
        cluster.logs.clear()
        cluster.grow()
        with pytest.raises(UnknownTopicOrPartitionError, match="was the topic deleted"):
            read(consumer, 1)


def made_anew(cluster: FakeCluster, count: int) -> None:
    """The topic is deleted and created again, and has records at once."""
    cluster.delete_topic("t")
    cluster.create_topic("t", 2)
    fill(cluster, 0, count)
    cluster.grow()


def test_a_topic_made_anew_is_read_from_where_the_policy_says(cluster: FakeCluster) -> None:
    fill(cluster, 0, 20)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=1) as consumer:
        consumer.assign([T0])
        read(consumer, 20)
        made_anew(cluster, 50)  # offset 20 exists in the new topic, too
        assert [record.offset for record in read(consumer, 50)] == list(range(50))
        assert consumer.statistics().fetch.resets == 1


def test_without_a_policy_a_topic_made_anew_is_an_error_until_a_seek(cluster: FakeCluster) -> None:
    fill(cluster, 0, 20)
    with Consumer(cluster.bootstrap, auto_offset_reset="none", retry_backoff_ms=1) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        read(consumer, 20)
        made_anew(cluster, 50)
        with pytest.raises(TopicRecreatedError, match="its id is id-2-of-t, not id-1-of-t"):
            read(consumer, 1)
        assert consumer.position(T0) == 20
        consumer.seek(T0, 7)
        assert read(consumer, 1)[0].offset == 7


def test_a_raw_range_reads_no_other_topic_of_that_name(cluster: FakeCluster) -> None:
    fill(cluster, 0, 50)
    found: list[int] = []
    with Consumer(cluster.bootstrap, max_partition_fetch_bytes=1, retry_backoff_ms=1) as consumer:
        with pytest.raises(TopicRecreatedError):
            for buffer in consumer.fetch_raw("t", 0, 0, 1_000):
                found.append(buffer.next_offset)
                if buffer.next_offset == 50:
                    made_anew(cluster, 200)
        assert found == [10, 20, 30, 40, 50]
        with pytest.raises(TopicRecreatedError):
            list(consumer.fetch_raw("t", 0, 0, 10, "id-1-of-t"))
        assert [buffer.next_offset for buffer in consumer.fetch_raw("t", 0, 0, 10, "id-2-of-t")] == [10]


def test_a_stream_that_ends_in_order_is_as_ordinary_as_one_that_breaks(cluster: FakeCluster) -> None:
    fill(cluster, 0, 100)
    options = {"max_partition_fetch_bytes": 1, "retry_backoff_ms": 1}
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([T0])
        found: list[int] = []
        for buffer in consumer.fetch_raw("t", 0, 0, 100):
            found += [r.offset for r in read_records(buffer.records, from_offset=buffer.from_offset)]
            cluster.end_streams(1)
        polled = [record.offset for record in read(consumer, 1, max_records=10)]
        while len(polled) < 100:
            cluster.end_streams(1)
            polled += [record.offset for record in read(consumer, 1, max_records=10)]
    assert found == polled == list(range(100))


def test_closing_a_consumer_ends_its_ranges(cluster: FakeCluster) -> None:
    fill(cluster, 0, 50)
    with Consumer(cluster.bootstrap, max_partition_fetch_bytes=1) as consumer:
        buffers = consumer.fetch_raw("t", 0, 0, 1_000)
        assert next(buffers).next_offset == 10
        consumer.close()
        with pytest.raises(ClientClosedError):
            list(buffers)


def test_a_closed_consumer_says_so(cluster: FakeCluster) -> None:
    consumer = Consumer(cluster.bootstrap)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientClosedError):
        consumer.poll()


def test_what_a_producer_sends_a_consumer_gets(cluster: FakeCluster) -> None:
    values = [b"%d" % n for n in range(20_000)]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        cluster.create_topic(codec, 2)
        with Producer(cluster.bootstrap, compression_type=codec) as producer:
            for value in values:
                producer.send(codec, value)
        with Consumer(cluster.bootstrap) as consumer:
            consumer.assign(consumer.partitions_for(codec))
            consumer.seek_to_beginning()
            assert sorted(int(r.value or b"") for r in read(consumer, 20_000)) == list(range(20_000))


def test_a_consumer_with_nothing_assigned_ends_its_streams(cluster: FakeCluster) -> None:
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        wait_until(lambda: len(cluster.tasks_of_streams(1)) == 1)
        consumer.assign([])
        wait_until(lambda: not cluster.tasks_of_streams(1))  # raises where it does not come to that
        assert not consumer.assignment()
