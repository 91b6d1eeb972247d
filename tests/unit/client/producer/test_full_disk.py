"""A full disk that took nothing of a batch opens no outcome: sending the batch again can make no duplicate."""

from __future__ import annotations

import pytest

from penstock import Producer
from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster


@pytest.mark.parametrize(("nothing_written", "duplicates"), [(True, 0), (False, 2)])
def test_only_an_open_outcome_counts_as_a_possible_duplicate(nothing_written: bool, duplicates: int) -> None:
    full = KafkaStorageError("the disk is full")
    full.nothing_written = nothing_written
    options = {"linger_ms": 0, "retry_backoff_ms": 1, "enable_idempotence": False}
    with FakeCluster(1) as cluster, Producer(cluster.bootstrap, **options) as producer:
        cluster.create_topic("t")
        cluster.fail_produce("t", 0, full, full)
        producer.send("t", b"v").result(60)
        assert cluster.logs[TopicPartition("t", 0)].end_offset == 1 + duplicates
        assert producer.statistics().possible_duplicates == duplicates
