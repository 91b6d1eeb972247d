"""Promises about how much goes offline by what a disk says."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any, cast

from broker.replication.disk_failures import DiskFailures
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.lost_replicas import LostReplicas
from broker.replication.refused_appends import RefusedAppends
from storage.log_dirs.log_manager import LogManager
from tests.support.replicas import AtOnce


def test_a_log_dir_that_several_flushes_find_broken_fails_once() -> None:
    offline_log_dirs: dict[str, Any] = {}
    heard: list[tuple[str, Exception]] = []
    log_manager = SimpleNamespace(offline_log_dirs=offline_log_dirs, fail_log_dir=offline_log_dirs.__setitem__)
    hosted = HostedPartitions(1)
    failures = DiskFailures(
        cast(LogManager, log_manager),
        hosted,
        LostReplicas(hosted),
        RefusedAppends(lambda: 0),
        AtOnce(),
        lambda: None,
        lambda log_dir, error: heard.append((log_dir, error)),
    )
    first, second = OSError(errno.EIO, "first"), OSError(errno.EIO, "second")
    failures.directory_failed("/d", first)
    failures.directory_failed("/d", second)
    failures.directory_failed("/e", second)
    assert heard == [("/d", first), ("/e", second)]
