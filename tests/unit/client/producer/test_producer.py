"""The producer against a fake cluster: acks, order under retries, leader changes, time-outs, limits, close."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock import Producer
from penstock.client.producer.sending.outcomes import OutboundRequest
from penstock.errors import (
    ApiError,
    BufferExhaustedError,
    ClientClosedError,
    InvalidRecordError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    RecordListTooLargeError,
    RequestTimedOutError,
    TimedOutError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as found:
        found.create_topic("t", 2)
        yield found


def stored(cluster: FakeCluster, tp: TopicPartition = T0) -> list[bytes | None]:
    return [r.value for _, _, data, _ in cluster.logs[tp].batches for r in read_records(data)]


def test_headers_may_be_a_dict(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send("t", b"v", headers={"a": b"1", "b": None}, partition=0).result()
        with pytest.raises(TypeError, match=r"header 'a' must be bytes or None, not str; encode it: text.encode\(\)"):
            producer.send("t", b"v", headers={"a": "1"})  # type: ignore[dict-item]
    (record,) = [r for _, _, data, _ in cluster.logs[T0].batches for r in read_records(data)]
    assert record.headers == (("a", b"1"), ("b", None))


def test_a_future_tells_where_the_record_stands(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        futures = [
            producer.send("t", b"%d" % n, key=b"k", headers=[("h", b"1")], partition=0, timestamp_ms=n)
            for n in range(5)
        ]
        found = [future.result(60) for future in futures]
        assert [(m.topic, m.partition, m.offset, m.timestamp_ms) for m in found] == [("t", 0, n, n) for n in range(5)]
        assert all(future.done() and future.exception() is None for future in futures)
    assert stored(cluster) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_callback_is_called_before_and_after_the_ack(cluster: FakeCluster) -> None:
    called = threading.Event()
    with Producer(cluster.bootstrap) as producer:
        future = producer.send("t", b"v")
        future.add_done_callback(lambda done: called.set() if done.result(0).offset == 0 else None)
        assert called.wait(60)
        late: list[object] = []
        future.add_done_callback(late.append)
        assert late == [future]


def test_keys_of_one_value_go_to_one_partition_in_order(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        futures = [producer.send("t", b"%d" % n, key=b"k%d" % (n % 3)) for n in range(300)]
        homes = {n % 3: future.result(60).partition for n, future in enumerate(futures)}
        assert all(future.result().partition == homes[n % 3] for n, future in enumerate(futures))
    for key in range(3):
        values = [int(v or b"") for v in stored(cluster, TopicPartition("t", homes[key])) if int(v or b"") % 3 == key]
        assert values == sorted(values)


def test_order_is_kept_under_retries(cluster: FakeCluster) -> None:
    cluster.fail_produce("t", 0, *[NotEnoughReplicasError() for _ in range(4)])
    with Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=1, batch_size=500) as producer:
        futures = [producer.send("t", b"%04d" % n, partition=0) for n in range(500)]
        producer.flush(60)
        assert [future.result(0).offset for future in futures] == list(range(500))
        statistics = producer.statistics()
    assert stored(cluster) == [b"%04d" % n for n in range(500)]
    assert statistics.batches_retried >= 4 and statistics.possible_duplicates == 0


AFTER, REFUSED = NotEnoughReplicasAfterAppendError, NotEnoughReplicasError


@pytest.mark.parametrize(
    ("errors", "duplicates"),
    [
        ((REFUSED,) * 3, 0),
        ((AFTER,), 1),
        ((AFTER, REFUSED, RequestTimedOutError), 2),
        ((AFTER, AFTER, InvalidRecordError), 1),
        ((AFTER, InvalidRecordError), 0),
        ((AFTER, UnknownServerError), 1),
        ((AFTER, RecordListTooLargeError, AFTER, KafkaStorageError), 3),
    ],
)
def test_the_count_of_possible_duplicates_is_what_is_in_the_log(
    cluster: FakeCluster, errors: tuple[type[ApiError], ...], duplicates: int
) -> None:
    """The count is of acked and failed records alike: one that failed, and stands in the log once, is no duplicate."""
    cluster.fail_produce("t", 0, *[error() for error in errors])
    with Producer(cluster.bootstrap, linger_ms=50, retry_backoff_ms=1, enable_idempotence=False) as producer:
        for value in (b"one", b"two"):
            producer.send("t", value, partition=0)
        producer.flush(60)
        counted = producer.statistics().possible_duplicates
    found = Counter(stored(cluster))
    in_the_log = sum(times - 1 for times in found.values())
    assert in_the_log <= counted
    if RecordListTooLargeError not in errors:
        assert in_the_log == counted == 2 * duplicates


def test_a_batch_in_flight_when_the_producer_closes_may_be_written_once_more(cluster: FakeCluster) -> None:
    cluster.fail_produce("t", 0, AFTER())
    producer = Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=1, enable_idempotence=False)
    sent_again = threading.Event()

    def on_produce(node_id: int, request: object) -> None:
        if len(cluster.produced) > 1:
            cluster.silence(node_id)
            sent_again.set()

    cluster.on_produce = on_produce
    producer.send("t", b"v", partition=0)
    assert sent_again.wait(60)
    producer.close(timeout=0)
    assert producer.statistics().records_failed == 1 and producer.statistics().possible_duplicates == 1


def test_a_leader_hint_is_followed_without_asking_for_metadata(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=60_000) as producer:
        producer.send("t", b"1", partition=0).result(60)
        asked = cluster.metadata_requests
        cluster.move_leader("t", 0, 2)
        assert producer.send("t", b"2", partition=0).result(60).offset == 1
        assert cluster.metadata_requests == asked
        assert [node for node, _ in cluster.produced] == [1, 1, 2]


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_broken_stream_is_retried_and_without_idempotence_counted(cluster: FakeCluster, is_idempotent: bool) -> None:
    options = {"linger_ms": 0, "retry_backoff_ms": 1, "enable_idempotence": is_idempotent}
    with Producer(cluster.bootstrap, **options) as producer:
        producer.send("t", b"1", partition=0).result(60)
        taken = threading.Event()
        cluster.silence(1)
        cluster.on_produce = lambda node, request: taken.set()
        future = producer.send("t", b"2", partition=0)
        assert taken.wait(60)
        cluster.silence(1, on=False)
        cluster.break_streams(1)
        assert future.result(60).offset == (1 if is_idempotent else 2)
        assert producer.statistics().possible_duplicates == (0 if is_idempotent else 1)
    assert stored(cluster) == [b"1", b"2"] + [b"2"] * (not is_idempotent)


def test_a_request_that_is_never_answered_is_sent_again(cluster: FakeCluster) -> None:
    cluster.silence(1)
    cluster.on_produce = lambda node, request: cluster.silence(1, on=False) if len(cluster.produced) == 2 else None
    with Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=1, request_timeout_ms=200) as producer:
        assert producer.send("t", b"v", partition=0).result(60).offset == 0


def test_delivery_ends_with_a_typed_time_out(cluster: FakeCluster) -> None:
    cluster.silence(1)
    options = {"linger_ms": 0, "retry_backoff_ms": 1, "request_timeout_ms": 100, "delivery_timeout_ms": 500}
    with Producer(cluster.bootstrap, **options) as producer, pytest.raises(TimedOutError, match="delivery_timeout_ms"):
        producer.send("t", b"v", partition=0).result(60)


def test_a_node_that_comes_back_gets_what_waited(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=20) as producer:
        producer.send("t", b"1", partition=0).result(60)
        cluster.stop_node(1)
        future = producer.send("t", b"2", partition=0)
        cluster.start_node(1)
        assert future.result(60).offset == 1


def test_an_error_that_is_not_retriable_fails_the_record(cluster: FakeCluster) -> None:
    cluster.fail_produce("t", 0, InvalidRecordError("no key on a compacted topic"))
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        future = producer.send("t", b"v", partition=0)
        assert isinstance(future.exception(60), InvalidRecordError)
        with pytest.raises(InvalidRecordError, match="compacted"):
            future.result()
        assert producer.send("t", b"v", partition=0).result(60).offset == 0


def test_a_record_over_the_limit_is_refused_with_both_sizes_and_nothing_is_queued(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, max_request_size=1_000, linger_ms=0) as producer:
        with pytest.raises(MessageTooLargeError, match=r"has 1001 bytes; the limit is max_request_size=1000"):
            producer.send("t", b"x" * 931)
        with pytest.raises(MessageTooLargeError):
            producer.send_many("t", [b"x" * 931])
        producer.send("t", b"x" * 930, partition=0).result(60)
    assert len(stored(cluster)) == 1


def test_a_full_buffer_blocks_and_then_says_so(cluster: FakeCluster) -> None:
    cluster.silence(1)
    with Producer(cluster.bootstrap, buffer_memory=10_000, max_block_ms=1_000, linger_ms=0) as producer:
        with pytest.raises(BufferExhaustedError, match=r"max_block_ms=1000.*buffer_memory=10000"):
            for _ in range(10):
                producer.send("t", b"x" * 5_000, partition=0)
        with pytest.raises(BufferExhaustedError):
            producer.send_many("t", [b"x" * 9_000] * 2, partition=0)
        cluster.silence(1, on=False)
        producer.close(timeout=0.01)


def test_a_buffer_that_drains_lets_everything_through(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, buffer_memory=20_000, batch_size=4_000) as producer:
        futures = [producer.send("t", b"x" * 100) for _ in range(5_000)]
        producer.flush(60)
        assert all(future.done() for future in futures)
        assert producer.statistics().buffered_bytes == 0
    assert len(stored(cluster)) + len(stored(cluster, TopicPartition("t", 1))) == 5_000


def test_send_many_answers_for_all(cluster: FakeCluster) -> None:
    pa = pytest.importorskip("pyarrow")
    values = [b"%d" % n for n in range(3_000)]
    with Producer(cluster.bootstrap, batch_size=2_000) as producer:
        plain = producer.send_many("t", iter(values), partition=0)
        assert plain.result(60) == 3_000 and plain.done() and plain.exception() is None
        assert sum(found.record_count for found in plain.ranges()) == 3_000
        arrow = producer.send_many("t", pa.array(values), partition=1)
        assert arrow.result(60) == 3_000
        keyed = producer.send_many("t", values, keys=[b"k%d" % (n % 5) for n in range(3_000)])
        both = producer.send_many("t", pa.array(values), keys=pa.array([b"k%d" % (n % 5) for n in range(3_000)]))
        assert keyed.result(60) == both.result(60) == 3_000
        assert producer.send_many("t", []).result(1) == 0
    assert stored(cluster)[:3_000] == values
    assert stored(cluster, TopicPartition("t", 1))[:3_000] == values
    assert len(stored(cluster)) + len(stored(cluster, TopicPartition("t", 1))) == 12_000


def test_send_many_goes_behind_what_was_sent_before(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=10_000, delivery_timeout_ms=20_000) as producer:
        first = producer.send("t", b"first", partition=0)
        producer.send_many("t", [b"second"], partition=0).result(60)
        assert first.result(60).offset == 0
    assert stored(cluster) == [b"first", b"second"]


def test_the_topics_own_limit_cuts_batches(cluster: FakeCluster) -> None:
    cluster.create_topic("small", 1, {"max.message.bytes": "2000"})
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("small", [b"x" * 100] * 100).result(60)
        for _ in range(100):
            producer.send("small", b"x" * 100)
        producer.flush(10)
    assert max(len(batch[2]) for batch in cluster.logs[TopicPartition("small", 0)].batches) <= 2_000


def test_a_partitioner_of_ones_own_is_asked(cluster: FakeCluster) -> None:
    with Producer(
        cluster.bootstrap, partitioner=lambda topic, key, value, count: len(value or b"") % count
    ) as producer:
        assert producer.send("t", b"1", key=b"k").result(60).partition == 1
        assert producer.send("t", b"22", key=b"k").result(60).partition == 0
        assert producer.send_many("t", [b"1", b"22", b"3"]).result(60) == 3
    assert stored(cluster, TopicPartition("t", 1)) == [b"1", b"1", b"3"]


def test_acks_0_does_not_wait_for_answers(cluster: FakeCluster) -> None:
    cluster.silence(1)
    with Producer(cluster.bootstrap, acks=0, linger_ms=0) as producer:
        assert producer.send("t", b"v", partition=0).result(60).offset == -1


def test_unknown_topics_and_partitions_are_named(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.cluster.cluster.UNKNOWN_TOPIC_GRACE_MS", 50)
    with Producer(cluster.bootstrap, retry_backoff_ms=1) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match="'nope' does not exist"):
            producer.send("nope", b"v")
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 1, not 2"):
            producer.send("t", b"v", partition=2)


def test_records_go_to_the_topic_that_has_the_name_when_they_are_sent(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, retry_backoff_ms=1, linger_ms=0) as producer:
        assert producer.send("t", b"to the first", partition=0).result(60).offset == 0
        cluster.delete_topic("t")
        cluster.create_topic("t", 2)
        assert producer.send("t", b"to the second", partition=0).result(60).offset == 0
        assert producer.statistics().batches_retried >= 1 and producer.statistics().possible_duplicates == 0
    *refused, last = (request.partitions[0].topic_id for _, request in cluster.produced)
    assert set(refused) <= {"id-1-of-t", last} and last == cluster.topics["t"], "the new log knows no sequences"
    assert stored(cluster) == [b"to the second"]


def test_a_broker_that_lags_brings_no_producer_back_to_a_deleted_topic(cluster: FakeCluster) -> None:
    cluster.freeze_metadata(1, "t")
    cluster.delete_topic("t")
    cluster.create_topic("t", 2)
    newer = cluster.bootstrap.split(",")[1]
    with Producer(newer, retry_backoff_ms=1, linger_ms=0, metadata_max_age_ms=1) as producer:
        for _ in range(10):
            producer.send("t", b"v", partition=0).result(60)
    assert {request.partitions[0].topic_id for _, request in cluster.produced} == {cluster.topics["t"]}


def test_a_topic_that_is_new_is_waited_for(cluster: FakeCluster) -> None:
    cluster.hide_topics_for = 3
    with Producer(cluster.bootstrap, retry_backoff_ms=1, linger_ms=0) as producer:
        assert producer.send("t", b"v").result(60).offset == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"value": "text"}, "value must be bytes or None, not str; encode it"),
        ({"value": 3}, "not int"),
        ({"key": "k"}, "key must be bytes"),
        ({"headers": [("h",)]}, "a header must be a pair"),
        ({"headers": [(b"h", b"v")]}, "a header must be a pair"),
        ({"partition": "0"}, "partition must be an int"),
        ({"timestamp_ms": 1.5}, "timestamp_ms must be an int"),
    ],
)
def test_a_record_of_the_wrong_type_is_refused_at_once(
    cluster: FakeCluster, arguments: dict[str, object], says: str
) -> None:
    with Producer(cluster.bootstrap) as producer:
        with pytest.raises(TypeError, match=says.replace("(", r"\(")):
            producer.send("t", **arguments)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="negative"):
            producer.send("t", b"v", timestamp_ms=-5)
        with pytest.raises(TypeError, match="iterable of bytes"):
            producer.send_many("t", b"one")


def test_flush_that_takes_too_long_is_a_time_out(cluster: FakeCluster) -> None:
    cluster.silence(1)
    producer = Producer(cluster.bootstrap)
    future = producer.send("t", b"v", partition=0)
    with pytest.raises(TimedOutError, match="not acked within"):
        producer.flush(0.02)
    producer.close(timeout=0.02)
    assert isinstance(future.exception(1), ClientClosedError)


def test_close_flushes_and_then_nothing_is_taken(cluster: FakeCluster) -> None:
    producer = Producer(cluster.bootstrap, linger_ms=10_000, delivery_timeout_ms=20_000)
    future = producer.send("t", b"v", partition=0)
    producer.close()
    assert future.result(0).offset == 0
    producer.close()
    for call in (lambda: producer.send("t", b"v"), lambda: producer.send_many("t", [b"v"])):
        with pytest.raises(ClientClosedError):
            call()
    assert "closed" in repr(producer)


def test_many_threads_lose_and_repeat_nothing(cluster: FakeCluster) -> None:
    results: list[tuple[bytes, int, int]] = []
    with Producer(cluster.bootstrap, batch_size=2_000, linger_ms=1) as producer:

        def work(name: int) -> None:
            futures = [(b"%d-%d" % (name, n), producer.send("t", b"%d-%d" % (name, n))) for n in range(2_000)]
            results.extend((value, f.result(60).partition, f.result().offset) for value, f in futures)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(results) == 8_000
    logs = {partition: stored(cluster, TopicPartition("t", partition)) for partition in (0, 1)}
    assert all(logs[partition][offset] == value for value, partition, offset in results)
    assert len(logs[0]) + len(logs[1]) == 8_000


def test_one_request_carries_all_partitions_of_a_broker() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 4)
        with Producer(cluster.bootstrap, linger_ms=10_000, delivery_timeout_ms=20_000) as producer:
            for partition in range(4):
                producer.send("t", b"v", partition=partition)
            producer.flush(10)
        assert [len(request.partitions) for _, request in cluster.produced] == [4]


def test_outbound_requests_are_plain_values() -> None:
    assert OutboundRequest(1, 2, 3, 4, (), 0) == OutboundRequest(1, 2, 3, 4, (), 0)


def test_a_flush_waits_for_a_batch_whose_answer_is_being_taken_in(cluster: FakeCluster) -> None:
    for partition in (0, 1):
        cluster.move_leader("t", partition, 1)
    in_callback, go_on = threading.Event(), threading.Event()

    def hold_up(future: object) -> None:
        in_callback.set()
        go_on.wait(60)

    with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"v", partition=partition) for partition in (0, 1)]
        for future in futures:
            future.add_done_callback(hold_up)
        sending = threading.Thread(target=producer.flush)
        sending.start()
        assert in_callback.wait(60), "one of the two is acked; both were in one request"
        flushing = threading.Thread(target=producer.flush)
        flushing.start()
        flushing.join(0.1)
        assert flushing.is_alive() and not all(future.done() for future in futures)
        go_on.set()
        flushing.join(60)
        sending.join(60)
        assert all(future.done() for future in futures)
