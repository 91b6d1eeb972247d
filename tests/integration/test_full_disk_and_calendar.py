"""A disk is full, and the calendar jumps years ahead: no record is deleted by age to make room, and all goes on once
both are right again.

Not here: a full disk alone (test_full_disk.py), calendars that differ between nodes (test_wrong_calendars.py).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from penstock.errors import KafkaStorageError
from penstock.record.builder import build_batch
from penstock.testing import Cluster
from tests.integration.test_cluster import wait_until
from tests.integration.test_full_disk import DISK_BYTES, LEFT_BYTES, RECORD_BYTES, count, one_node
from tests.support import raw_broker
from tests.support.shifted_clock import ShiftedClock
from tests.support.small_disk import fill

FIVE_YEARS_S = 5 * 365 * 86_400
CHECK_MS = 100
CHECKED_S = 0.5
"""Five looks of the job that deletes what is old."""


@pytest.mark.long  # test_full_disk.py and test_memory_calendars.py have each
@pytest.mark.skipif(sys.platform != "linux", reason="a small disk and a calendar of one's own")
def test_a_full_disk_and_a_calendar_years_ahead_cost_no_record(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    with clock.within(), one_node(tmp_path, log_retention_check_interval_ms=CHECK_MS) as (cluster, disk):
        fill(disk / "ballast", LEFT_BYTES)
        acked = written(cluster)
        assert acked > 2 and count(cluster) == acked
        clock.ahead(FIVE_YEARS_S)
        time.sleep(CHECKED_S)
        assert count(cluster) == acked, "nothing is old because of a calendar that jumps"
        assert written(cluster) == 0
        (disk / "ballast").unlink()
        wait_until(lambda: written(cluster, 1) == 1)
        clock.ahead(0)
        time.sleep(CHECKED_S)
        assert count(cluster) == acked + 1 and written(cluster, 1) == 1


def written(cluster: Cluster, most: int = 2 * DISK_BYTES // RECORD_BYTES) -> int:
    """How many records of now are acked before the first is refused, for the disk."""
    batch = build_batch([bytes(RECORD_BYTES)], timestamps_ms=int(time.time() * 1_000))
    for acked in range(most):
        (answer,) = raw_broker.produce(cluster.endpoint(0), raw_broker.records("small", 0, batch))
        if (code := answer.partitions[0].error.code) != 0:
            assert code == KafkaStorageError.code
            return acked
    return most
