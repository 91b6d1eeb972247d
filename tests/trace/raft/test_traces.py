"""Transcripts of scenes of the quorum, compared with the files beside this one.

`PENSTOCK_REWRITE=1 pytest tests/trace/raft` rewrites them; then read the diff: it is the review.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

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


def figure_8() -> Stage:
    """Raft §5.4.2: an older epoch's record on a majority is not committed by that alone. Here a fetch has one batch."""
    stage = Stage(fetch_max_bytes=1)
    first = stage.open_quietly()
    second, third = (node_id for node_id in stage.ids if node_id != first)
    stage.cut(first)
    stage.propose(first, b"old")
    for node_id in (second, third, first):
        stage.crash(node_id)
    stage.heal()
    stage.say(f"only node {first} has 'old'; it leads again, with the vote of node {second}")
    stage.restart(first)
    stage.restart(second)
    stage.run_until(lambda: stage.actors[first].core.leadership is not None)
    stage.run_ms(10)
    stage.say("the fetch at 2 acked 'old' by a majority, and the high watermark stayed; the fetch at 3 moved it")
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
    figure_8,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_transcript_is_as_reviewed(scene: Callable[[], Stage]) -> None:
    about = f"# {scene.__name__.replace('_', ' ')}" + (f": {scene.__doc__}" if scene.__doc__ else "")
    transcript = "\n".join([about, *scene().lines]) + "\n"
    path = TRANSCRIPTS / f"{scene.__name__}.txt"
    if os.environ.get("PENSTOCK_REWRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(transcript, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == transcript
