"""The chaos run at small size; `python -m tests.chaos --seeds 1..10 --minutes 3` is the same at length."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import CAMPAIGN, Options
from tests.chaos.faults import Kind

KINDS = (Kind.STOP, Kind.HANG, Kind.RECREATE)
SEED = 444
"""Its first three faults are one of each kind, and short; while the topic is made anew, a node is killed."""


@pytest.mark.long  # simulated clusters hang, die and stop before each merge, and test_cluster.py has processes that do
def test_nothing_is_lost_changed_or_skipped_while_nodes_hang_die_and_stop_and_a_topic_is_made_anew() -> None:
    report = CAMPAIGN.run(Options(SEED, only=KINDS, faults_max=len(KINDS), spark_reads=0))
    assert report.ok, report.as_json()
    assert set(report.figures["faults"]) == set(KINDS) and report.figures["acked"] > 0


@pytest.mark.long
def test_the_same_holds_on_a_secured_cluster_whose_certificates_change_and_strangers_get_nothing() -> None:
    report = CAMPAIGN.run(Options(SEED, only=KINDS, faults_max=len(KINDS), spark_reads=0, secure=True))
    assert report.ok, report.as_json()
    assert report.figures["acked"] > 0
    assert any(name.endswith("AuthorizationFailedError") for name in report.figures["strangers"])


@pytest.mark.long
def test_a_disk_that_hangs_costs_the_partitions_of_other_disks_nothing() -> None:
    options = Options(42, only=(Kind.HANG_DISK,), faults_max=1, spark_reads=0)  # its hang is short
    report = CAMPAIGN.run(options)
    assert report.ok and report.figures["acked_beside_hung_disks"] > 0, report.as_json()
