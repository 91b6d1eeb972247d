"""The table of states: what may follow what, what is persisted, and what a restart makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError, InvariantViolation
from raft.config import RaftConfig
from raft.quorum_state import EPOCH_MAX, TRANSITIONS, ElectionState, QuorumState, State
from raft.state_diagram import page
from raft.voters import NO_VOTERS
from tests.support.voters import voters_of

CONFIG = RaftConfig("c", 1, voters_of(1, 2, 3))
OBSERVER = RaftConfig("c", 9, voters_of(1, 2, 3))


def quorum(epoch: int = 0, leader_id: int = -1, voted_id: int = -1, config: RaftConfig = CONFIG) -> QuorumState:
    return QuorumState(config, ElectionState(epoch, leader_id, voted_id))


def test_table_names_every_state_and_only_states_that_exist() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set().union(*TRANSITIONS.values()) == set(State)


def test_the_page_of_states_is_drawn_from_the_table() -> None:
    drawn = Path(__file__).parents[3] / "docs" / "raft-states.md"
    assert drawn.read_text(encoding="utf-8") == page(), "python -m raft.state_diagram > docs/raft-states.md"


def test_leadership_is_reached_only_by_a_candidate() -> None:
    assert [state for state in State if State.LEADER in TRANSITIONS[state]] == [State.CANDIDATE]
    assert [state for state in State if State.CANDIDATE in TRANSITIONS[state]] == [State.PROSPECTIVE]
    assert State.LEADER not in TRANSITIONS[State.RESIGNED]


def test_way_not_in_the_table_is_an_invariant_violation() -> None:
    with pytest.raises(InvariantViolation, match="no way from Unattached to Leader"):
        quorum().to_leader()


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        (ElectionState(), State.UNATTACHED),
        (ElectionState(4), State.UNATTACHED),
        (ElectionState(4, voted_id=2), State.VOTED),
        (ElectionState(4, voted_id=1), State.VOTED),
        (ElectionState(4, leader_id=2, voted_id=2), State.FOLLOWER),
        (ElectionState(4, leader_id=1, voted_id=1), State.RESIGNED),
        (ElectionState(4, leader_id=8), State.UNATTACHED),
    ],
)
def test_restart_goes_on_where_the_votes_are_still_good(stored: ElectionState, state: State) -> None:
    assert QuorumState(CONFIG, stored).state is state


def test_observer_that_once_voted_comes_back_unattached() -> None:
    assert quorum(4, voted_id=2, config=OBSERVER).state is State.UNATTACHED


def test_second_vote_in_an_epoch_is_an_invariant_violation() -> None:
    state = quorum(3, voted_id=2)
    state.to_prospective()
    with pytest.raises(InvariantViolation, match="second vote"):
        state.to_voted(3)


def test_second_leader_in_an_epoch_is_an_invariant_violation() -> None:
    state = quorum(3, leader_id=2)
    with pytest.raises(InvariantViolation, match="second leader"):
        state.to_follower(3, 3)


def test_epoch_never_falls_nor_overflows() -> None:
    with pytest.raises(InvariantViolation):
        quorum(5).to_unattached(4)
    with pytest.raises(InvariantViolation):
        quorum(5).to_unattached(EPOCH_MAX + 1)
    with pytest.raises(InvariantViolation):
        quorum(-1)


def test_observer_never_votes_nor_stands() -> None:
    with pytest.raises(InvariantViolation, match="no part in elections"):
        quorum(config=OBSERVER).to_prospective()
    with pytest.raises(InvariantViolation, match="no part in elections"):
        quorum(config=OBSERVER).to_voted(2)


def test_only_a_changed_election_state_is_handed_over_once() -> None:
    state = quorum(3)
    state.to_prospective()
    assert state.take_unsaved() is None
    state.to_candidate()
    assert state.take_unsaved() == ElectionState(4, -1, 1)
    assert state.take_unsaved() is None


def test_vote_is_kept_when_the_leader_of_the_epoch_becomes_known() -> None:
    state = quorum(3)
    state.to_voted(2)
    state.to_follower(3, 2)
    assert state.take_unsaved() == ElectionState(3, 2, 2)


def test_leader_that_said_it_ended_is_not_followed_again_in_its_epoch() -> None:
    state = quorum(3, leader_id=2)
    state.to_unattached(3)
    assert state.may_follow(2, 3)
    state.note_leader_ended()
    assert not state.may_follow(2, 3)
    assert state.may_follow(2, 4)


def test_a_leader_that_is_no_voter_by_the_file_is_followed_for_the_quorum_may_be_dynamic() -> None:
    assert quorum(3).may_follow(8, 9)
    assert quorum(3, config=OBSERVER).may_follow(8, 3)


def test_nobody_follows_itself_no_node_or_a_leader_of_an_earlier_epoch() -> None:
    assert not quorum(3).may_follow(1, 9)
    assert not quorum(3).may_follow(-1, 9)
    assert not quorum(3).may_follow(2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster_id": ""}, "cluster.id"),
        ({"node_id": -1}, "node.id"),
        ({"first_voters": NO_VOTERS}, "voters"),
        ({"first_voters": voters_of(*range(12))}, "possible"),
        ({"election_timeout_ms": 0}, "election_timeout_ms"),
        ({"fetch_timeout_ms": -1}, "fetch_timeout_ms"),
        ({"retry_backoff_max_ms": 1}, "retry_backoff_max_ms"),
    ],
)
def test_bad_configuration_names_the_key(changes: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"cluster_id": "c", "node_id": 1, "first_voters": voters_of(1, 2, 3)} | changes
    with pytest.raises(ConfigError, match=message):
        RaftConfig(**values)  # type: ignore[arg-type]


def test_fetch_never_waits_longer_than_a_third_of_the_fetch_timeout() -> None:
    assert RaftConfig("c", 1, voters_of(1), fetch_timeout_ms=300).fetch_wait_ms == 100
    assert RaftConfig("c", 1, voters_of(1)).fetch_wait_ms == 500
