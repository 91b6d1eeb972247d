"""Promises of a truncation: it waits for its disk, nobody else does, and it is done only while it is still wanted."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.follower.fetcher_ports import FetcherNode
from broker.replication.partition import Partition, PartitionReports
from penstock.messages.fetch import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset, TopicPartition
from tests.support.leader_stream import until
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, flush, make_log, state
from tests.support.virtual_time import run_virtual, virtual_clock

OTHER = TopicPartition("t", 1)
CONFIG = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 5)
OLD_EPOCH, EPOCH = 4, 5
ME = 7
OnAnswer = Callable[[BaseException | None], None]


class Stream:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[FetchRequest] = []
        self._number = 0
        self._answers: asyncio.Queue[list[PartitionFetchResult]] = asyncio.Queue()

    def answer(self, *results: PartitionFetchResult) -> None:
        self._answers.put_nowait(list(results))

    def wanted(self, key: TopicPartition) -> list[int]:
        """The offsets from which the partition was asked for."""
        return [
            wanted.fetch_offset for request in self.asked for wanted in request.partitions if wanted.partition == key
        ]

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self.asked.append(request)
        self._number = correlation_id

    async def receive(self) -> tuple[int, FetchResponse]:
        results = await self._answers.get()
        return self._number, FetchResponse(results)

    def cancel(self) -> None:
        """Nothing is open."""


class Stage:
    """A follower of two partitions with three old records each; disks that answer when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.disk_errors: list[BaseException] = []
        reports = PartitionReports(disk_error=lambda partition, error: self.disk_errors.append(error))
        self.followers = {
            key: Partition(2, make_log(directory / str(key), partition=key), 0, 1, reports) for key in KEYS
        }
        for follower in self.followers.values():
            for n in range(3):
                old = build_batch([b"old"], timestamps_ms=0, producer_id=ME, producer_epoch=0, base_sequence=n)
                follower.log.append.as_leader(old, OLD_EPOCH, 1_700_000_000_000)
            follower.log.flush()
            follower.become_follower(state(), NOBODY)
        self.work: Callable[[], object] | None = None
        self.expected: list[tuple[TopicPartition, int, Callable[[], bool]]] = []
        self.probes: list[tuple[TopicPartition, OnAnswer]] = []
        self.stream = Stream()
        node = SimpleNamespace(
            broker_epoch=102,
            find=self.followers.get,
            request_flush=lambda partition: asyncio.get_running_loop().call_soon(flush, partition),
            expect_cut=self.expect_cut,
            when_disk_answers=self.ask_disk,
        )
        self.fetcher = ReplicaFetcher(
            "1-0", CONFIG, virtual_clock(), Random(0), lambda: self.stream, cast(FetcherNode, node), pytest.fail
        )
        self.cut = self.followers[PARTITION]
        for follower in self.followers.values():
            self.fetcher.add(follower, EPOCH)

    def expect_cut(self, partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> None:
        self.expected.append((partition.topic_partition, offset, is_wanted))

    def ask_disk(self, partition: Partition, then: OnAnswer, work: Callable[[], object] | None) -> None:
        self.work = work
        self.probes.append((partition.topic_partition, then))

    async def diverges(self) -> OnAnswer:
        """The leader's log of the old epoch ends at 1; who is waited for then."""
        await until(lambda: len(self.stream.wanted(PARTITION)) > len(self.probes))
        at = self.stream.wanted(PARTITION)[-1]
        answer = EpochEndOffset(OLD_EPOCH, 1)
        self.stream.answer(PartitionFetchResult(PARTITION, TOPIC_ID, at, diverging_epoch=answer))
        known = len(self.probes)
        await until(lambda: len(self.probes) > known)
        key, then = self.probes[-1]
        assert key == PARTITION and self.cut.log.log_end_offset == 3, "nothing is cut before the disk has answered"
        return then


KEYS = (PARTITION, OTHER)


def test_what_is_known_of_producers_below_a_cut_is_read_while_the_disk_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        at = Stage(tmp_path)
        producers = at.cut.log.producers
        await at.diverges()
        assert at.work is not None and not producers.is_stale
        at.work()
        at.probes[-1][1](None)
        assert at.cut.log.log_end_offset == 1 and not producers.is_stale
        entry = producers.known.get(ME)
        assert entry is not None and [found.base_offset for found in entry.batches] == [0]
        await at.fetcher.stop()

    run_virtual(scenario())


def test_a_truncation_waits_for_its_disk_and_the_other_partitions_do_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        at = Stage(tmp_path)
        disk_answers = await at.diverges()
        leader = make_log(tmp_path / "leader", partition=OTHER)
        for epoch in (OLD_EPOCH, OLD_EPOCH, OLD_EPOCH, EPOCH):
            leader.append.as_leader(batch(b"new"), epoch, 1_700_000_000_000)
        records = leader.reader.read(3, 1 << 20).records
        at.stream.answer(PartitionFetchResult(OTHER, TOPIC_ID, 3, None, 4, 0, records))
        await until(lambda: at.stream.wanted(OTHER)[-1] == 4)
        assert at.stream.wanted(PARTITION) == [3], "not asked for while it waits"

        disk_answers(None)
        assert at.cut.log.log_end_offset == 1
        await until(lambda: at.stream.wanted(PARTITION) == [3, 1])
        await at.fetcher.stop()

    run_virtual(scenario())


def test_a_truncation_is_not_done_any_more_once_the_partition_was_taken_away_or_added_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        at = Stage(tmp_path)
        disk_answers = await at.diverges()
        [(key, offset, is_wanted)] = at.expected
        assert (key, offset, is_wanted()) == (PARTITION, 1, True), "the checkpoints may be lowered with those of others"
        at.fetcher.remove([PARTITION])
        at.fetcher.add(at.cut, EPOCH)
        at.fetcher.kick()
        assert not is_wanted(), "and not any more"
        disk_answers(None)
        assert at.cut.log.log_end_offset == 3

        disk_answers = await at.diverges()
        at.fetcher.remove([PARTITION])
        disk_answers(None)
        assert at.cut.log.log_end_offset == 3
        await at.fetcher.stop()

    run_virtual(scenario())


def test_a_disk_that_answers_with_an_error_is_the_partitions_trouble(tmp_path: Path) -> None:
    async def scenario() -> None:
        at = Stage(tmp_path)
        disk_answers = await at.diverges()
        disk_answers(OSError(errno.EMFILE, "no descriptors"))
        assert [error.errno for error in at.disk_errors if isinstance(error, OSError)] == [errno.EMFILE]
        await asyncio.sleep(2 * CONFIG.backoff_ms / 1000)
        at.stream.answer()  # the long poll under way ends
        disk_answers = await at.diverges()  # asked again after the back-off
        disk_answers(OSError(errno.EIO, "broken"))
        assert len(at.disk_errors) == 2 and at.cut.log.log_end_offset == 3
        await asyncio.sleep(1)
        at.stream.answer()
        await asyncio.sleep(1)
        assert len(at.stream.wanted(PARTITION)) == 2, "not fetched any more in this epoch"
        await at.fetcher.stop()

    run_virtual(scenario())
