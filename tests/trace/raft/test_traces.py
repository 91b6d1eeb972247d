"""Transcripts of scenes of the quorum, compared with the files beside this one. The paper's figures: test_paper.py.

`PENSTOCK_REWRITE=1 pytest tests/trace/raft` rewrites them; then read the diff: it is the review.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.transcripts import compare
from tests.trace.raft.stage import Stage

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def first_election_and_first_commits() -> Stage:
    stage = Stage()
    leader = stage.run_until_leader()
    stage.say("a proposal travels: append, fetch, ack by the next fetch, news of the high watermark")
    stage.propose(leader, b"a", b"b")
    stage.run_ms(10)
    stage.show_logs()
    return stage


def leader_is_cut_off_and_its_tail_is_truncated() -> Stage:
    """The old leader's uncommitted record gives way to what its successor committed."""
    stage = Stage()
    leader = stage.open_quietly()
    stage.cut(leader)
    stage.propose(leader, b"lost")
    successor = stage.run_until_leader(leader)
    stage.propose(successor, b"kept")
    stage.heal()
    stage.run_until(lambda: stage.actors[leader].core.high_watermark == stage.actors[successor].core.high_watermark)
    stage.show_logs()
    return stage


def partitioned_follower_does_not_disturb_when_it_comes_back() -> Stage:
    """KIP-996: without pre-vote it would come back with a higher epoch and unseat a healthy leader."""
    stage = Stage()
    leader = stage.open_quietly()
    follower = next(node_id for node_id in stage.ids if node_id != leader)
    stage.quietly_run_ms(500)
    stage.cut(follower)
    stage.quietly_run_ms(4_000)
    stage.show_logs()
    stage.heal()
    stage.run_until(lambda: stage.actors[follower].core.leader_id == leader)
    stage.run_ms(20)
    stage.show_logs()
    return stage


def graceful_stop_hands_leadership_over() -> Stage:
    stage = Stage()
    leader = stage.open_quietly()
    stage.resign(leader)
    stage.run_until_leader(leader)
    stage.show_logs()
    return stage


def leader_crashes_and_comes_back_resigned() -> Stage:
    stage = Stage()
    leader = stage.open_quietly()
    stage.crash(leader)
    stage.restart(leader)
    stage.run_until_leader()
    stage.run_ms(20)
    stage.show_logs()
    return stage


def check_quorum_makes_a_lonely_leader_resign() -> Stage:
    stage = Stage()
    leader = stage.open_quietly()
    others = [node_id for node_id in stage.ids if node_id != leader]
    for other in others:
        stage.crash(other)
    stage.run_until(lambda: stage.actors[leader].core.leadership is None)
    stage.say("alone, it asks but never raises its epoch")
    stage.quietly_run_ms(5_000)
    stage.show_logs()
    stage.restart(others[0])
    stage.run_until_leader()
    stage.show_logs()
    return stage


def observer_finds_the_leader_and_follows() -> Stage:
    stage = Stage(voters=1, observers=1)
    stage.run_until(lambda: stage.actors[2].core.high_watermark == 1)
    stage.propose(1, b"x")
    stage.run_ms(10)
    stage.show_logs()
    return stage


SCENES: list[Callable[[], Stage]] = [
    first_election_and_first_commits,
    leader_is_cut_off_and_its_tail_is_truncated,
    partitioned_follower_does_not_disturb_when_it_comes_back,
    graceful_stop_hands_leadership_over,
    leader_crashes_and_comes_back_resigned,
    check_quorum_makes_a_lonely_leader_resign,
    observer_finds_the_leader_and_follows,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_transcript_is_as_reviewed(scene: Callable[[], Stage]) -> None:
    compare(TRANSCRIPTS, scene.__name__, inspect.getdoc(scene), scene().lines)
