"""Nodes whose calendars are years apart forget, lose and double nothing, and take what producers send.

Longer: `python -m tests.exactly_once.calendars --minutes 10`.
"""

from __future__ import annotations

from pathlib import Path

from tests.exactly_once.calendars import BATCH, STEPS, run

ROUNDS = 2


def test_what_three_nodes_with_calendars_years_apart_keep_and_copy_is_there_once(tmp_path: Path) -> None:
    outcome = run(lambda rounds: rounds < ROUNDS, tmp_path, seed=1, say=print)
    assert outcome.wrong == []
    assert outcome.copied == ROUNDS * STEPS * BATCH and outcome.kills == 1
