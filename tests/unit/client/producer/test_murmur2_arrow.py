"""Promises about hashing many keys at once: the same partitions as one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.producer.partitioner import partition_for_key
from penstock.client.producer.producer import Producer
from tests.support.amount import usually
from tests.support.fake_broker import FakeCluster

pa = pytest.importorskip("pyarrow")


@settings(max_examples=usually(15, long=60), derandomize=True, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=19), max_size=30), st.integers(1, 12), st.integers(0, 5))
def test_keys_hashed_together_go_where_they_go_alone(keys: list[bytes | None], count: int, skip: int) -> None:
    from penstock.client.producer.bulk.murmur2_arrow import partition_ids

    alone = [-1 if key is None else partition_for_key(key, count) for key in keys]
    assert partition_ids(pa.array(keys, pa.binary()), count).tolist() == alone
    assert partition_ids(pa.array(keys, pa.binary()).slice(skip), count).tolist() == alone[skip:]


def test_an_arrow_array_with_keys_is_sent_to_the_partitions_of_its_keys() -> None:
    keys = [None if number % 5 == 0 else f"key-{number}" for number in range(300)]
    values = [b"%d" % number for number in range(300)]
    with FakeCluster() as cluster, Producer(cluster.bootstrap) as producer:
        cluster.create_topic("t", 4)
        future = producer.send_many("t", pa.array(values), keys=pa.array(keys))
        future.result()
        expected = [0] * 4
        for key in keys:
            if key is not None:
                expected[partition_for_key(key.encode(), 4)] += 1
        ends = [cluster.logs[tp].end_offset for tp in producer.partitions_for("t")]
        assert sum(ends) == 300
        assert all(end >= least for end, least in zip(ends, expected, strict=True))
        producer.send_many("t", pa.array(values), keys=pa.array(keys), partition=2).result()
        assert cluster.logs[producer.partitions_for("t")[2]].end_offset == ends[2] + 300
