"""A node of three voters, brought into each of the seven states of raft/quorum_state.py, in epoch 5 or the next."""

from __future__ import annotations

from raft.quorum_state import ElectionState, State
from tests.support.raft_bench import Bench, log_of

EPOCH = 5
LOG_END = (5, 2)
"""The epoch of the last record, and the end of the log, before the node led."""


def on_the_way_to(state: State) -> Bench:
    """Node 1 of 1, 2, 3 in that state, with all that it sent on the way there."""
    leader = {State.FOLLOWER: 2, State.RESIGNED: 1}.get(state, -1)
    voted = {State.VOTED: 2, State.RESIGNED: 1}.get(state, -1)
    bench = Bench(stored=ElectionState(EPOCH, leader, voted), log=log_of(4, 5))
    bench.perform()
    match state:
        case State.PROSPECTIVE:
            bench.become_prospective()
        case State.CANDIDATE:
            bench.become_candidate()
        case State.LEADER:
            bench.become_leader()
    assert bench.core.state is state
    return bench


def in_state(state: State) -> Bench:
    """Node 1 of 1, 2, 3 in that state; what it sent and saved on the way there is forgotten."""
    bench = on_the_way_to(state)
    bench.take_sent()
    bench.store.saves.clear()
    return bench
