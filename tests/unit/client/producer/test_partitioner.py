"""Keys go where Kafka's Java client puts them; keyless batches go to the least busy partition."""

from __future__ import annotations

import pytest

from penstock.client.producer.partitioner import StickyChooser, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [  # from Kafka's UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_agrees_with_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_the_partition_of_a_key_is_the_positive_hash_modulo_the_count() -> None:
    assert partition_for_key(b"foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7
    assert {partition_for_key(b"%d" % n, 5) for n in range(100)} == set(range(5))


def test_the_least_busy_partition_is_chosen() -> None:
    waiting = {0: 2, 1: 0, 2: 1}
    assert StickyChooser().choose([0, 1, 2], waiting.__getitem__) == 1


def test_equally_busy_partitions_take_turns() -> None:
    chooser = StickyChooser()
    assert sorted(chooser.choose([0, 1, 2], lambda _: 0) for _ in range(3)) == [0, 1, 2]
