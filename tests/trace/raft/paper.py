"""Scenes of figures 7 and 8 of the Raft paper (Ongaro and Ousterhout, "In Search of an Understandable Consensus
Algorithm", ATC'14), played by the cores of the quorum. Node 1 is the paper's S1, and so on.

Epochs are the paper's terms, and offsets begin at 0 where its indexes begin at 1. Here every leader begins its epoch
with a record, and followers fetch; else the figures are as printed.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.trace.raft.stage import Stage, epochs_of

FIGURE_7 = {
    1: (1, 1, 1, 4, 4, 5, 5, 6, 6, 6),
    2: (1, 1, 1, 4, 4, 5, 5, 6, 6),
    3: (1, 1, 1, 4),
    4: (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    5: (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    6: (1, 1, 1, 4, 4, 4, 4),
    7: (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
}
"""Node 1 is the leader at the top of the figure, nodes 2 to 7 are its followers a to f."""


def figure_7() -> Stage:
    """Raft §5.3: a new leader meets followers that lack records, have some more, or both.

    Nobody is asked record by record: a follower names its end, and the leader where the follower's epoch ends with it.
    Nodes 4 and 5 (c and d) would not vote for node 1; the others are a majority.
    """
    stage = Stage(7, logs=FIGURE_7, epoch=7, terse=True)
    stage.show_epochs()
    stage.lead(1)
    end = stage.actors[1].core.log_end_offset
    stage.run_until(lambda: all(actor.core.high_watermark == end for actor in stage.actors.values()))
    stage.show_epochs()
    for node_id, actor in stage.actors.items():
        assert epochs_of(actor) == [*FIGURE_7[1], 8], f"node {node_id} has {epochs_of(actor)}"
    return stage


def _up_to_c() -> Stage:
    """Figure 8, (a) to (c): node 1 has an older epoch's record on a majority, and has committed nothing since."""
    stage = Stage(5, logs=dict.fromkeys(range(1, 6), (1,)), epoch=1, terse=True, fetch_max_bytes=1)
    stage.say("(a) node 1 leads epoch 2; its record reaches node 2 alone")
    _lead_before_anybody_fetches(stage, 1, lambda: stage.cut(1, 3, 4, 5))
    stage.run_until(lambda: epochs_of(stage.actors[2]) == [1, 2])
    stage.say("(b) node 5 leads epoch 3 with the votes of nodes 3 and 4; its record reaches nobody")
    stage.crash(1)
    stage.cut(2)
    _lead_before_anybody_fetches(stage, 5, lambda: stage.crash(5))
    stage.say("(c) node 1 leads epoch 4, and goes on with its record of epoch 2: nodes 1, 2 and 3 have it")
    stage.heal()
    stage.restart(1)
    stage.cut(1, 4)
    stage.stands(1)
    return stage


def _lead_before_anybody_fetches(stage: Stage, node_id: int, strike: Callable[[], object]) -> None:
    stage.at_the_moment(lambda: stage.actors[node_id].core.leadership is not None, strike)
    stage.stands(node_id)
    stage.run_until(lambda: node_id not in stage.actors or stage.actors[node_id].core.leadership is not None)


def _acked(stage: Stage, offset: int) -> bool:
    """True if nodes 2 and 3 have told node 1 that they have what is below the offset."""
    leadership = stage.actors[1].core.leadership if 1 in stage.actors else None
    voters = leadership.replicas.voters() if leadership is not None else ()
    return sum(replica.acked_offset >= offset for replica in voters if replica.replica_id in (2, 3)) == 2


def figure_8_d_an_older_record_on_a_majority_is_overwritten() -> Stage:
    """Raft §5.4.2: so it must not count as committed, although a majority has it."""
    stage = _up_to_c()
    stage.at_the_moment(lambda: _acked(stage, 2), lambda: stage.crash(1))
    stage.run_until(lambda: 1 not in stage.actors)
    stage.show_epochs()
    stage.say("(d) node 5 leads epoch 5 with the votes of nodes 3 and 4, and overwrites it")
    stage.heal()
    stage.restart(5)
    stage.lead(5)
    stage.restart(1)
    stage.run_until(lambda: all(actor.core.high_watermark == 3 for actor in stage.actors.values()))
    stage.show_epochs()
    assert all(epochs_of(actor) == [1, 3, 5] for actor in stage.actors.values())
    return stage


def figure_8_e_a_record_of_the_present_epoch_commits_the_older_one() -> Stage:
    """Raft §5.4.2: with a record of epoch 4 on a majority, node 5 cannot win any more."""
    stage = _up_to_c()
    stage.run_until(lambda: stage.actors[1].core.high_watermark == 3)
    stage.say("(e) node 1 has committed; it crashes, and node 5 stands for election")
    stage.crash(1)
    stage.heal()
    stage.restart(5)
    stage.stands(5)
    stage.run_ms(10_000)
    assert stage.actors[5].core.leadership is None, "node 5 leads"
    stage.say("nodes 2 and 3 have refused node 5; one of them is elected")
    stage.lead(3)
    stage.restart(1)
    stage.run_until(lambda: all(actor.core.high_watermark == 4 for actor in stage.actors.values()))
    stage.show_epochs()
    assert all(epochs_of(actor)[:3] == [1, 2, 4] for actor in stage.actors.values())
    return stage
