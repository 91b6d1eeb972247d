"""Promises of DescribeLogDirs: every log dir is told of, with its disk's room and the size of each replica."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from broker.apis.describe_log_dirs import DescribeLogDirsApi
from broker.network.request_channel import Request
from broker.quorum.metadata_log import METADATA_PARTITION
from penstock.errors import KafkaStorageError
from penstock.messages.log_dirs import (
    NOT_KNOWN,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirReplica,
    LogDirTopic,
)
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.disk.file_system import DiskRoom
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink
from tests.support.storage import open_manager

ROOM = DiskRoom(1000, 400)


class Broker:
    """Two log dirs, `a` and `b`. In `a`: orders-0, empty, and orders-1, of two records."""

    def __init__(self, log_manager: LogManager) -> None:
        self.log_manager = log_manager
        self.a, self.b = log_manager.checkpoints.log_dirs
        for number in (0, 1):
            tp = TopicPartition("orders", number)
            log = log_manager.get_or_create(tp, "o" * 22, LogConfig(), is_new=True, log_dir=self.a)
            if number:
                log.append.as_leader(build_batch((b"1", b"2"), timestamps_ms=0), 0, 0)
                self.size = log.size_bytes

    def describe(self, *topics: str) -> DescribeLogDirsResponse:
        request = Request("DescribeLogDirs", None, Sink(), CALLER, NOW_NS)
        api = DescribeLogDirsApi(7, self.log_manager, lambda: {self.a: ROOM})
        api.handle(request, DescribeLogDirsRequest(topics))
        assert isinstance(request.response, DescribeLogDirsResponse)
        return request.response


@pytest.fixture
def broker() -> Iterator[Broker]:
    manager = open_manager(LosingFileSystem(), ("/a", "/b"))
    yield Broker(manager)
    manager.close(clean=False)


def test_each_log_dir_has_its_room_and_its_replicas(broker: Broker) -> None:
    response = broker.describe()
    assert response.node_id == 7
    a, b = response.log_dirs
    assert (a.path, b.path) == (broker.a, broker.b)
    assert (a.total_bytes, a.usable_bytes, a.error) == (1000, 400, None)
    assert (b.total_bytes, b.usable_bytes, b.topics) == (NOT_KNOWN, NOT_KNOWN, ())
    replicas = (LogDirReplica(0, 0, 0, 0), LogDirReplica(1, broker.size, 0, 2))
    assert a.topics == (LogDirTopic("orders", "o" * 22, replicas),)
    assert a.directory_id == broker.log_manager.directory_id(broker.a) != b.directory_id


def test_only_the_topics_asked_for_are_told_of(broker: Broker) -> None:
    assert [log_dir.topics for log_dir in broker.describe("users").log_dirs] == [(), ()]
    assert len(broker.describe("users", "orders").log_dirs[0].topics[0].replicas) == 2


def test_the_metadata_log_is_no_replica_of_a_topic(broker: Broker) -> None:
    broker.log_manager.get_or_create(METADATA_PARTITION, "m" * 22, LogConfig(), is_new=True, log_dir=broker.b)
    assert broker.describe().log_dirs[1].topics == ()


def test_a_log_dir_that_failed_is_told_of_with_its_error_and_without_replicas(broker: Broker) -> None:
    broker.log_manager.fail_log_dir(broker.a, OSError(errno.EIO, "it died"))
    b, a = broker.describe().log_dirs
    assert (a.path, b.path) == (broker.a, broker.b)
    assert isinstance(a.error, KafkaStorageError) and "it died" in str(a.error)
    assert (a.total_bytes, a.usable_bytes, a.topics) == (NOT_KNOWN, NOT_KNOWN, ())
    assert b.error is None


def test_a_cordoned_log_dir_is_told_of_as_one(broker: Broker) -> None:
    broker.log_manager.cordoned.add(broker.b)
    assert [log_dir.is_cordoned for log_dir in broker.describe().log_dirs] == [False, True]
