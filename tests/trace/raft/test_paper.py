"""Transcripts of the figures of the Raft paper, each of which fails with the mistake that it is about.

`PENSTOCK_REWRITE=1 pytest tests/trace/raft` rewrites them; then read the diff: it is the review.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import InvariantViolation
from raft import election, progress
from raft.decided_log import DecidedLog
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.support.transcripts import compare
from tests.trace.raft import paper
from tests.trace.raft.stage import Stage

TRANSCRIPTS = Path(__file__).parent / "transcripts"
Scene = Callable[[], Stage]
SCENES: dict[Scene, Edit] = {
    paper.figure_7: Edit(
        DecidedLog.diverging_epoch,
        "epochs.diverging_epoch(self._entries, self._log_end_offset, fetch_offset, last_fetched_epoch)",
        "None",
    ),
    paper.figure_8_d_an_older_record_on_a_majority_is_overwritten: Edit(
        progress.committed_offset,
        "majority_acked if majority_acked > epoch_start_offset else high_watermark",
        "max(majority_acked, high_watermark)",
    ),
    paper.figure_8_e_a_record_of_the_present_epoch_commits_the_older_one: Edit(
        election.log_is_up_to_date, "(request.last_epoch, request.last_epoch_end_offset) >=", "True or"
    ),
}
"""With the mistake that its end must not survive."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_transcript_is_as_reviewed(scene: Scene) -> None:
    compare(TRANSCRIPTS, scene.__name__, inspect.getdoc(scene), scene().lines)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_scene_fails_with_the_mistake_that_it_is_about(scene: Scene) -> None:
    mistake = Mutant(scene.__name__, "", (SCENES[scene],))
    with switched_on(mistake), pytest.raises((AssertionError, InvariantViolation)):
        scene()
