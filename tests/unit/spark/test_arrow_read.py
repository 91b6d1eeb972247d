"""A Spark task gives every good record once, and stops at a batch that cannot be decoded until the user names it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client.consumer.decode import PIECE_BYTES_MIN
from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.errors import ConfigError, UndecodableBatchError, UnknownTopicOrPartitionError
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.spark.arrow_read import ReadSettings, read_range
from penstock.spark.batch_reader import PenstockBatchReader
from penstock.spark.options import source_options
from penstock.spark.planning import DataLossError, PlannedRange
from penstock.spark.schema import source_schema
from tests.support.bad_batches import BAD, wrong_checksum
from tests.support.compaction import CompactedLog
from tests.support.fake_log_client import FakeLogClient


def task(client: FakeLogClient, **more: str) -> Iterator[int]:
    """The offsets of the rows of the only task."""
    options = source_options({"bootstrap": "h:1", "subscribe": "t", **more}, streaming=False)
    reader = PenstockBatchReader(options, source_schema(False), lambda _: client)
    (partition,) = reader.partitions()
    for batch in reader.read(partition):
        yield from batch["offset"].to_pylist()


def until_error(offsets: Iterator[int]) -> tuple[list[int], Exception | None]:
    found: list[int] = []
    try:
        for offset in offsets:
            found.append(offset)  # noqa: PERF402 - what came before the error counts
    except Exception as error:
        return found, error
    return found, None


@pytest.fixture
def client() -> FakeLogClient:
    fake = FakeLogClient()
    fake.create("t")
    return fake


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_batch_is_named_after_every_good_row_before_it_and_passed_only_by_name(
    client: FakeLogClient, caplog: pytest.LogCaptureFixture, bad: Callable[[int], bytes]
) -> None:
    client.append("t", 0, 5)
    client.append_bytes("t", 0, bad, 2)
    client.append("t", 0, 3)

    found, error = until_error(task(client))
    assert found == [0, 1, 2, 3, 4]
    assert isinstance(error, UndecodableBatchError)
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, 5, 7)
    assert 'skipUndecodable={"t": {"0": [5]}}' in str(error)

    assert until_error(task(client, skipUndecodable='{"t": {"0": [4]}}'))[1] is not None, "that is another batch"
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert list(task(client, skipUndecodable='{"t": {"0": [5]}}')) == [0, 1, 2, 3, 4, 7, 8, 9]
    assert "t-0: offsets [5, 7) are skipped" in caplog.text


def test_small_batches_that_unpack_to_a_lot_come_in_parts_before_the_damage_behind_them(client: FakeLogClient) -> None:
    value = bytes(PIECE_BYTES_MIN // 4)

    def packed(base_offset: int) -> bytes:
        return build_batch([value], timestamps_ms=0, base_offset=base_offset, codec=Codec.ZSTD, leader_epoch=0)

    for _ in range(6):
        client.append_bytes("t", 0, packed, 1)
    client.append_bytes("t", 0, wrong_checksum, 2)
    options = source_options({"bootstrap": "h:1", "subscribe": "t"}, streaming=False)
    reader = PenstockBatchReader(options, source_schema(False), lambda _: client)
    (partition,) = reader.partitions()
    rows, found = [], []
    with pytest.raises(UndecodableBatchError):
        for batch in reader.read(partition):
            rows.append(batch.num_rows)
            found += batch["offset"].to_pylist()
    assert found == list(range(6)) and max(rows) < 5


@pytest.mark.parametrize("text", ["5", "[5]", '{"t": 5}', '{"t": {"0": 5}}', '{"t": {"x": [5]}}', "{"])
def test_an_option_that_names_no_batches_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="skipUndecodable"):
        source_options({"bootstrap": "h:1", "subscribe": "t", "skipUndecodable": text}, streaming=False)


class CleanedWhileRead:
    """A compacted log behind the task; the cleaner runs after the first fetch, and stretches a batch."""

    def __init__(self) -> None:
        self.log = CompactedLog()
        self.log.append(*[(b"only-here-%d" % n, b"x") for n in range(3)], (b"k", b"0"))
        for n in range(1, 12):
            self.log.append((b"k", b"%d" % n))
        self.log.seal()

    def fetch(self, span: PlannedRange) -> Iterator[RawBuffer]:
        at = span.lo
        while at < span.hi:
            records = self.log.log.reader.read(at, 100).records
            after = max(header.next_offset for _, header in iter_headers(records))
            yield RawBuffer(records, at, after)
            if at == span.lo:
                self.log.clean()
            at = after


def test_a_cleaner_that_stretches_a_batch_between_two_fetches_gives_no_row_twice() -> None:
    client: Any = CleanedWhileRead()
    end = client.log.log.log_end_offset
    settings = ReadSettings(source_schema(False))
    batches = read_range(client, PlannedRange("t", "id", 0, 0, end), settings)
    found = [offset for batch in batches for offset in batch["offset"].to_pylist()]
    assert found == sorted(set(found))
    assert set(range(4)) <= set(found) and found[-1] == end - 1


@pytest.mark.parametrize("what", ["recreated", "deleted"])
def test_a_topic_that_goes_away_under_a_task_is_lost_data(client: FakeLogClient, what: str) -> None:
    def lose(_: PlannedRange) -> Iterator[RawBuffer]:
        raise UnknownTopicOrPartitionError("t-0 does not exist any more")

    client.append("t", 0, 5)
    options = source_options({"bootstrap": "h:1", "subscribe": "t"}, streaming=False)
    (partition,) = PenstockBatchReader(options, source_schema(False), lambda _: client).partitions()
    if what == "recreated":
        client.create("t", topic_id="another")
        client.append("t", 0, 5)
    else:
        client.fetch = lose  # type: ignore[method-assign]
    with pytest.raises(DataLossError, match=r"the topic was deleted while it was read.*failOnDataLoss=false"):
        list(read_range(client, partition.value[0], ReadSettings(source_schema(False))))
    assert list(read_range(client, partition.value[0], ReadSettings(source_schema(False), False))) == []
