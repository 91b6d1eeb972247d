"""Promises of what a follower does to its log when the fetcher's core has decided."""

from __future__ import annotations

from pathlib import Path

from broker.replication.fetcher_core import StartOver, Truncate
from broker.replication.fetcher_driver import perform
from penstock.types import EpochEndOffset
from tests.support.partitions import NOBODY, PARTITION, make_partition, state


def test_a_log_that_starts_above_the_leaders_end_starts_over_there(tmp_path: Path) -> None:
    """After an unclean election; else the follower would ask for its own start for ever, and be sent back each time."""
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    perform(StartOver(PARTITION, 500), partition)
    perform(Truncate(PARTITION, EpochEndOffset(-1, 400)), partition)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (400, 400, 400)
