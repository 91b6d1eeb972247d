"""The chaos run at small size; `python -m tests.chaos --seeds 1..10 --minutes 3` is the same at length."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import Config, run_campaign
from tests.chaos.faults import Kind

KINDS = (Kind.STOP, Kind.HANG, Kind.RECREATE)
SEED = 444
"""Its first three faults are one of each kind, and short; while the topic is made anew, a node is killed."""


def test_nothing_is_lost_changed_or_skipped_while_nodes_hang_die_and_stop_and_a_topic_is_made_anew() -> None:
    outcome = run_campaign(Config(SEED, kinds=KINDS, faults_max=len(KINDS)))
    assert outcome.ok, outcome.as_json()
    assert set(outcome.faults) == set(KINDS) and outcome.verdict.acked > 0


@pytest.mark.long
def test_the_same_holds_on_a_secured_cluster_whose_certificates_change_and_strangers_get_nothing() -> None:
    outcome = run_campaign(Config(SEED, kinds=KINDS, faults_max=len(KINDS), secure=True))
    assert outcome.ok, outcome.as_json()
    assert outcome.verdict.acked > 0
    assert any(name.endswith("AuthorizationFailedError") for name in outcome.strangers_refused)


@pytest.mark.long
def test_a_disk_that_hangs_costs_the_partitions_of_other_disks_nothing() -> None:
    outcome = run_campaign(Config(42, kinds=(Kind.HANG_DISK,), faults_max=1))  # its hang is short
    assert outcome.ok and outcome.acked_beside_hung_disks > 0, outcome.as_json()
