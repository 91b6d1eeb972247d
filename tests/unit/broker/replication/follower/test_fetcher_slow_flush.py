"""Promises of a fetcher whose flushes take long, or will never be done: nothing else waits for them."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.follower.fetcher_ports import FetcherNode
from broker.replication.partition import NO_REPORTS, Partition, PartitionReports
from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.leader_stream import LeaderStream, until
from tests.support.partitions import NOBODY, PARTITION, batch, flush, make_log, state
from tests.support.virtual_time import run_virtual, virtual_clock

OTHER, LATER = TopicPartition("t", 1), TopicPartition("t", 2)
CONFIG = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)


def follower_of(
    directory: Path,
    key: TopicPartition,
    fs: FaultyFileSystem | None = None,
    reports: PartitionReports = NO_REPORTS,
) -> Partition:
    follower = Partition(2, make_log(directory / str(key), fs=fs, partition=key), 0, 1, reports)
    follower.become_follower(state(), NOBODY)
    return follower


def leader_of(directory: Path, *keys: TopicPartition) -> LeaderStream:
    """With one record in each partition."""
    logs = {key: make_log(directory / "leader", partition=key) for key in keys}
    for log in logs.values():
        log.append.as_leader(batch(b"value"), 5, 1_700_000_000_000)
    return LeaderStream(logs)


def test_a_partition_that_is_added_while_the_only_other_ones_flush_hangs_is_fetched(tmp_path: Path) -> None:
    stream = leader_of(tmp_path, PARTITION, LATER)
    hung, added = follower_of(tmp_path, PARTITION), follower_of(tmp_path, LATER)
    hosted = {PARTITION: hung, LATER: added}
    asked_to_flush: list[Partition] = []

    def request_flush(partition: Partition) -> None:
        asked_to_flush.append(partition)
        if partition is added:
            asyncio.get_running_loop().call_soon(flush, partition)

    async def scenario() -> None:
        node = SimpleNamespace(broker_epoch=102, find=hosted.get, request_flush=request_flush)
        fetcher = ReplicaFetcher(
            "1-0", CONFIG, virtual_clock(), Random(0), lambda: stream, cast(FetcherNode, node), pytest.fail
        )
        fetcher.add(hung, 5)
        await until(lambda: asked_to_flush == [hung])
        await asyncio.sleep(1)
        fetcher.add(added, 5)
        fetcher.kick()
        await until(lambda: stream.acked.get(LATER) == 1)
        assert stream.acked[PARTITION] == 0, "what is not on its disk is not acknowledged"
        flush(hung)
        await until(lambda: stream.acked[PARTITION] == 1)
        await fetcher.stop()

    run_virtual(scenario())


def test_what_went_offline_with_a_neighbour_in_the_same_answer_is_not_waited_for(tmp_path: Path) -> None:
    """The append of the second partition finds the disk broken, and takes the first offline, which has appended."""
    fs = FaultyFileSystem()
    stream = leader_of(tmp_path, PARTITION, OTHER, LATER)
    fetchers: list[ReplicaFetcher] = []
    asked_to_flush: list[Partition] = []

    def disk_error(failed: Partition, error: Exception) -> None:
        for key in (PARTITION, OTHER):  # they share a log dir
            fetchers[0].remove([key])
            hosted[key].stop(KafkaStorageError(str(error)))
            hosted[key].log.abandon()

    reports = PartitionReports(disk_error=disk_error)
    hosted = {key: follower_of(tmp_path, key, fs, reports) for key in (PARTITION, OTHER)}
    hosted[LATER] = follower_of(tmp_path, LATER)

    def request_flush(partition: Partition) -> None:
        asked_to_flush.append(partition)
        if partition.offline is None:
            asyncio.get_running_loop().call_soon(flush, partition)

    async def scenario() -> None:
        node = SimpleNamespace(broker_epoch=102, find=hosted.get, request_flush=request_flush)
        fetchers.append(
            ReplicaFetcher(
                "1-0", CONFIG, virtual_clock(), Random(0), lambda: stream, cast(FetcherNode, node), pytest.fail
            )
        )
        (fetcher,) = fetchers
        with fs.failing("write", f"{OTHER}/", errno.EIO) as fault:
            for key in (PARTITION, OTHER):
                fetcher.add(hosted[key], 5)
            await until(lambda: fault.met > 0)
        await asyncio.sleep(0)
        began_ms = virtual_clock().now_ms()
        fetcher.add(hosted[LATER], 5)
        fetcher.kick()
        await until(lambda: stream.acked.get(LATER) == 1)
        assert asked_to_flush == [hosted[LATER]]
        assert virtual_clock().now_ms() - began_ms < CONFIG.slow_flush_ms
        assert not len(hosted[PARTITION].acks_one)
        await fetcher.stop()

    run_virtual(scenario())
