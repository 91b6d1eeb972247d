"""Nodes whose calendars are years apart forget, lose and double nothing, and take what producers send.

Longer: `python -m tests.exactly_once.calendars --minutes 10`.
"""

from __future__ import annotations

import pytest

from tests.exactly_once.calendars import CAMPAIGN, STEPS, Options
from tests.exactly_once.hand_loop import BATCH

ROUNDS = 2


@pytest.mark.long  # unit/broker/node/test_memory_calendars.py and simulated clusters have such calendars
def test_what_three_nodes_with_calendars_years_apart_keep_and_copy_is_there_once() -> None:
    report = CAMPAIGN.run(Options(rounds=ROUNDS), print)
    assert report.ok, report.as_json()
    assert report.figures["copied"] == ROUNDS * STEPS * BATCH and report.figures["kills"] == 1
