"""The loop by hand is exactly once while the group's coordinator is cut off from the nodes, and not from the program.

Longer: `python -m tests.exactly_once.deposed --rounds 20`.
"""

from __future__ import annotations

import sys

import pytest

from tests.exactly_once.deposed import CAMPAIGN, STEPS, Options
from tests.exactly_once.hand_loop import BATCH


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the network between the nodes reads /proc")
def test_every_output_is_there_once_and_nobody_is_told_an_older_offset() -> None:
    report = CAMPAIGN.run(Options(rounds=1))
    assert report.ok, report.as_json()
    assert report.figures["committed"] == STEPS * BATCH and report.figures["transactions_aborted"] > 0
