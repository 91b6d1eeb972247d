"""The chaos run at small size; `python -m tests.chaos --seeds 1..10 --minutes 3` is the same at length."""

from __future__ import annotations

from tests.chaos.campaign import Config, run_campaign
from tests.chaos.faults import Kind


def test_nothing_is_lost_changed_or_skipped_while_nodes_die_and_hang_and_a_topic_is_made_anew() -> None:
    outcome = run_campaign(Config(seed=11, kinds=(Kind.KILL, Kind.HANG, Kind.RECREATE), faults_max=3))
    assert outcome.ok, outcome.as_json()
    assert outcome.verdict.acked > 0
