"""Promises about a limit of bytes: samples stand for what was not looked at, and never for too much of it."""

from __future__ import annotations

from itertools import accumulate

import pytest

from penstock.errors import OffsetOutOfRangeError
from penstock.spark.admission import Sample, rows_by_bytes, sampler
from penstock.types import TopicPartition
from tests.support.fake_log_client import FakeLogClient

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class SizedLog:
    """A log of which the size of every record is known; samples have ten records."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.taken = 0

    def take(self, tp: TopicPartition, offset: int) -> Sample:
        self.taken += 1
        piece = self.sizes[offset : offset + 10]
        return Sample(len(piece), sum(piece))

    def rows(self, max_bytes: int, begin: int = 0) -> int:
        return rows_by_bytes(self.take, {TP: begin}, {TP: len(self.sizes) - begin}, max_bytes)[TP]


@pytest.mark.parametrize("max_bytes", [100, 5_000, 99_999, 100_000])
def test_records_of_one_size_are_counted_exactly(max_bytes: int) -> None:
    assert SizedLog([100] * 1000).rows(max_bytes) == max_bytes // 100


def test_everything_is_taken_when_it_fits() -> None:
    assert SizedLog([100] * 1000).rows(100_000) == 1000
    assert SizedLog([100] * 1000).rows(10**9, begin=400) == 600


def test_at_least_one_record_is_taken_however_large() -> None:
    assert SizedLog([10_000] * 5).rows(1) == 1


def test_a_change_of_sizes_is_seen_before_much_too_much_is_taken() -> None:
    log = SizedLog([10] * 1_000 + [1_000] * 100_000)
    sizes = list(accumulate(log.sizes))
    assert sizes[log.rows(1_000_000) - 1] < 4_000_000
    log = SizedLog([1_000] * 1_000 + [10] * 1_000_000)
    assert 1_000_000 // 2 < list(accumulate(log.sizes))[log.rows(2_000_000) - 1] <= 2_000_000


def test_a_long_backlog_takes_few_samples() -> None:
    log = SizedLog([1] * 1_000_000)
    assert log.rows(10**9) == 1_000_000
    assert log.taken < 12


def test_partitions_share_the_bytes_that_wait() -> None:
    def take(tp: TopicPartition, offset: int) -> Sample:
        return Sample(10, 1000 if tp == TP else 10)

    found = rows_by_bytes(take, {TP: 0, OTHER: 0}, {TP: 900, OTHER: 10_000}, 10_000)
    assert found == {TP: 90, OTHER: 1000}
    assert rows_by_bytes(take, {TP: 0, OTHER: 0}, {TP: 0, OTHER: 10_000}, 10_000) == {OTHER: 10_000}


def test_a_sample_counts_whole_batches_also_from_the_middle_of_one() -> None:
    client = FakeLogClient()
    client.create("t")
    client.append("t", 0, 40)
    take = sampler(client, {"t": "id-of-t"})
    assert take(TP, 39) == take(TP, 0) == Sample(40, len(client.logs[TP].batches[0][3]))


def test_what_cannot_be_sampled_is_left_to_planning() -> None:
    client = FakeLogClient()
    client.create("t")
    client.append("t", 0, 40)
    client.delete_below("t", 0, 20)
    with pytest.raises(OffsetOutOfRangeError):
        client.sample(TP, 5, "id-of-t")
    take = sampler(client, {"t": "id-of-t"})
    assert take(TP, 5) == Sample(1, 0)
    assert rows_by_bytes(take, {TP: 5}, {TP: 10}, 10) == {TP: 10}
    assert sampler(client, {"t": "another"})(TP, 30) == Sample(1, 0)
