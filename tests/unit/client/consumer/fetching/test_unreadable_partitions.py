"""A consumer whose partition is refused for long says so: it asks again by itself, and nothing else would be seen."""

from __future__ import annotations

import pytest

from penstock import Consumer, TopicPartition
from penstock.client.consumer.fetching.fetcher import LOGGED_AT_FAILURES
from penstock.errors import KafkaStorageError
from penstock.record.builder import build_batch
from tests.support.fake_broker import FakeCluster


def test_a_partition_that_cannot_be_read_for_long_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster(1) as cluster, Consumer(cluster.bootstrap, retry_backoff_ms=1, retry_backoff_max_ms=1) as consumer:
        cluster.create_topic("t")
        cluster.append("t", 0, build_batch([b"v"], timestamps_ms=1_700_000_000_000))
        cluster.fail_fetch("t", 0, *[KafkaStorageError("the log is damaged")] * (2 * LOGGED_AT_FAILURES))
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        assert [record.value for record in consumer.poll(timeout_ms=30_000)] == [b"v"]
    logged = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert logged == ["t-0 cannot be read: KAFKA_STORAGE_ERROR: the log is damaged; the consumer keeps trying"]
