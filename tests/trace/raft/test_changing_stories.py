"""Stories of nodes that come back after the voters have changed: with an old set, an old log, or both.

Each ends well, and ends badly with the mistake that it is about. The histories that once lost records are in
tests/unit/raft/test_voter_changes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import InvariantViolation
from raft import election as election_module
from raft.decided_log import DecidedLog
from raft.following import Following
from raft.messages import VoteRequest
from raft.quorum_state import QuorumState, State
from raft.voter_history import VoterHistory
from tests.trace.raft.changing_stage import ChangingStage
from tests.trace.raft.stage import epochs_of

_may_grant = election_module.may_grant


def a_removed_voter_that_missed_its_removal_deposes_nobody() -> None:
    """It stands by its old set, for long; nobody who hears from the leader grants it a pre-vote. It hears of the leader
    by that, and goes by today's set."""
    stage = ChangingStage(3, 0)
    leader = stage.run_until_leader()
    stage.run_ms(1_000)
    removed = next(node_id for node_id in stage.ids if node_id != leader)
    stage.cut(removed)
    stage.remove(leader, removed)
    stage.run_ms(5_000)
    old = stage.actors[removed].core
    assert old.state is State.PROSPECTIVE and stage.voters_of(removed) == stage.ids
    epoch = stage.actors[leader].core.epoch
    stage.heal()
    stage.run_ms(2_000)
    assert (stage.actors[leader].core.leadership is not None, stage.actors[leader].core.epoch) == (True, epoch)
    assert (old.leader_id, removed in stage.voters_of(removed)) == (leader, False)


def an_observer_all_of_whose_voters_are_gone_finds_the_leader() -> None:
    """By its log node 1 is the only voter. Node 1 was replaced by others, and is gone."""
    stage = ChangingStage(1, 3)
    stage.run_until_leader()
    stage.run_ms(500)
    stage.cut(4)
    for newcomer in (2, 3):
        stage.add(1, newcomer)
        stage.run_ms(200)
    stage.remove(1, 1)
    leader = stage.run_until_leader(1)
    stage.crash(1)
    stage.heal()
    assert stage.voters_of(4) == (1,)
    stage.run_ms(8_000)
    assert (stage.actors[4].core.leader_id, stage.voters_of(4)) == (leader, (2, 3))


def a_voter_is_added_again_with_an_old_log() -> None:
    """It led once, and has records that nobody else has. It was removed meanwhile; its log is cut before its ack
    counts."""
    stage = ChangingStage(3, 0)
    stage.lead(1)
    stage.run_ms(500)
    stage.cut(1)
    for number in range(5):
        stage.propose(1, b"nobody has number %d" % number)
    stage.stands(2)
    stage.run_until_leader(1)
    stage.propose(2, b"of the second leader")
    stage.run_ms(200)
    stage.remove(2, 1)
    stage.run_ms(200)
    stage.crash(1)
    stage.heal()
    stage.restart(1)
    stage.run_ms(3_000)
    stage.add(2, 1)
    stage.cut(3)
    stage.propose(2, b"committed by 1 and 2")
    stage.run_ms(300)
    ends = {node_id: epochs_of(stage.actors[node_id])[: stage.actors[2].core.high_watermark] for node_id in (1, 2)}
    assert stage.actors[2].core.high_watermark == stage.actors[2].core.log_end_offset
    assert ends[1] == ends[2]


def a_successor_keeps_the_record_of_a_removal_back_too() -> None:
    """The first leader is gone with what it knew. The second has the record, and not that it is committed."""
    stage = ChangingStage(4, 0)
    stage.lead(1)
    stage.run_ms(1_000)
    for node_id in (3, 4):
        stage.cut(2, node_id)
        stage.cut(1, node_id)
    stage.at_the_moment(lambda: stage.voters_of(2) == (1, 2, 3), lambda: stage.crash(1))
    stage.remove(1, 4)
    stage.run_until(lambda: 1 not in stage.actors)
    stage.heal()
    stage.at_the_moment(lambda: stage.actors[2].core.leadership is not None, lambda: stage.cut(2, 3))
    stage.lead(2)
    stage.run_until(lambda: stage.actors[4].core.leader_id == 2)
    stage.run_ms(100)
    leadership = stage.actors[2].core.leadership
    assert leadership is not None and not leadership.has_committed
    assert stage.voters_of(4) == (1, 2, 3, 4), "it has the record of its removal"
    stage.heal()
    stage.run_ms(2_000)
    assert {stage.voters_of(node_id) for node_id in (2, 3, 4)} == {(1, 2, 3)}


def a_newcomer_whose_addition_was_lost_is_an_observer_again() -> None:
    """The leader that added it and the newcomer alone have the record; the others elect a leader without it."""
    stage = ChangingStage(3, 1)
    stage.lead(1)
    stage.run_ms(1_000)
    for node_id in (2, 3):
        stage.cut(1, node_id)
        stage.cut(4, node_id)
    stage.add(1, 4)
    stage.run_ms(100)
    assert stage.voters_of(4) == (1, 2, 3, 4)
    stage.stands(2)
    stage.run_until_leader(1)
    stage.heal()
    stage.stands(2, 4)
    stage.run_ms(3_000)
    assert {stage.voters_of(node_id) for node_id in stage.actors} == {(1, 2, 3)}
    assert stage.actors[2].core.leadership is not None and stage.actors[4].core.state is State.FOLLOWER


def _deposes(quorum: QuorumState, request: VoteRequest, up_to_date: bool, has_fetched: bool) -> bool:
    return request.pre_vote or _may_grant(quorum, request, True, has_fetched)


def _among_voters_alone(self: Following) -> int:
    return (*self._shared.quorum.other_voters, *self._shared.config.bootstrap_ids)[0]


STORIES: dict[Callable[[], None], tuple[Any, str, Any]] = {
    a_removed_voter_that_missed_its_removal_deposes_nobody: (election_module, "may_grant", _deposes),
    an_observer_all_of_whose_voters_are_gone_finds_the_leader: (Following, "_another_node", _among_voters_alone),
    a_voter_is_added_again_with_an_old_log: (DecidedLog, "diverging_epoch", lambda self, offset, epoch: None),
    a_successor_keeps_the_record_of_a_removal_back_too: (VoterHistory, "removed_at", lambda self, node_id, disk: None),
    a_newcomer_whose_addition_was_lost_is_an_observer_again: (VoterHistory, "truncate_to", lambda self, offset: None),
}
"""Each story, and the mistake with which it ends badly."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_story_ends_well(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_with_the_mistake_the_story_ends_badly(story: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*STORIES[story])
    with pytest.raises((AssertionError, InvariantViolation)):
        story()
