"""A real disk fills under a group's coordinator: commits fail with the reason, acked ones stay, reading goes on, and
all of it works again when there is room."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from penstock import Admin, CommittedOffset, Consumer, Producer, TopicPartition
from penstock.errors import PenstockError, TimedOutError
from penstock.testing import Cluster
from tests.integration.test_cluster import wait_until
from tests.integration.test_full_disk import DISK_BYTES, log_dirs
from tests.support.small_disk import fill, small_disk

SESSION_MS = 5_000
COMMIT_MS = 3_000
"""Time for some attempts of a commit, of which each is refused at once; two commits take longer than a session."""
CONFIG: dict[str, object] = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 256 * 1024,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.session.timeout.ms": SESSION_MS,
}
GROUP, PLACE = "g", TopicPartition("t", 0)
LEFT_BYTES = 60_000
TEXT = "x" * 4_000


def test_a_full_disk_under_a_coordinator_refuses_commits_and_loses_none(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        node = log_dirs(tmp_path, 0, disk)
        with (
            Cluster(1, CONFIG, tmp_path / "cluster", node_configs=[node]) as cluster,
            Admin(cluster.bootstrap) as admin,
        ):
            with suppress(PenstockError):  # the first question has the groups' topic made
                admin.group_offsets(GROUP)
            assert (disk / "log" / "__consumer_offsets-0").is_dir()
            admin.create_topic("t", 1)
            with Producer(cluster.bootstrap) as producer:
                producer.send("t", value=b"v").result(60)
            with Consumer(
                cluster.bootstrap, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False,
                request_timeout_ms=COMMIT_MS,
            ) as consumer:  # fmt: skip
                consumer.subscribe(["t"])
                wait_until(lambda: bool(consumer.poll(timeout_ms=200)))
                fill(disk / "ballast", LEFT_BYTES)
                acked = commit_until_refused(consumer)
                assert committed(consumer) == acked > 0
                for _ in range(2):
                    with pytest.raises(TimedOutError, match=r"not committed in time.*the disk is full: free space"):
                        consumer.commit({PLACE: CommittedOffset(999, metadata=TEXT)})
                    assert committed(consumer) == acked
                    consumer.poll(timeout_ms=100)
                (member,) = admin.describe_groups([GROUP])[GROUP].members
                assert member.assignment == (PLACE,), "no session ended, in more than its time"
                (disk / "ballast").unlink()
                wait_until(lambda: can_commit(consumer, 1_000))
                assert cluster.is_running(0)
            cluster.kill(0)
            cluster.start(0)
            assert admin.group_offsets(GROUP)[PLACE].offset == 1_000


def commit_until_refused(consumer: Consumer) -> int:
    """The last offset that was acked. The first refusal may be told before its reason is known."""
    for offset in range(1, DISK_BYTES // len(TEXT)):
        try:
            consumer.commit({PLACE: CommittedOffset(offset, metadata=TEXT)})
        except TimedOutError:
            return offset - 1
    raise AssertionError("a disk without end")


def committed(consumer: Consumer) -> int:
    found = consumer.committed([PLACE])[PLACE]
    assert found is not None
    return found.offset


def can_commit(consumer: Consumer, offset: int) -> bool:
    try:
        consumer.commit({PLACE: offset})
    except PenstockError:
        return False
    return True
