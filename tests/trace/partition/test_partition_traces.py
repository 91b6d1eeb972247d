"""Transcripts of published histories of one partition, compared with the files beside this one.

Each scene ends with what must hold, and is played again with the mistake that the history is about: then it must fail.
`PENSTOCK_REWRITE=1 pytest tests/trace/partition` rewrites the transcripts; then read the diff: it is the review.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.replication import partition_reads
from broker.replication.partition import Partition
from metadata.controller.elections import election
from penstock import epochs
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.support.transcripts import compare
from tests.trace.partition.controlled_stage import ControlledStage
from tests.trace.partition.stage import Stage

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def kip_101_a_follower_restarts_and_is_elected() -> Stage:
    """KIP-101, scenario 1: a follower that cut its log at its high watermark lost acked records when it was elected.

    Broker 1 has b, and has not heard that b is committed. It restarts, keeps what it has, and leads.
    """
    stage = Stage()
    stage.elect(2)
    stage.append("a", "b")
    stage.flush(2)
    stage.fetch(1)
    stage.flush(1)
    stage.say("this fetch acknowledges a and b; the follower does not hear that they are committed")
    stage.fetch(1, answer_is_lost=True)
    stage.kill(1)
    stage.start(1)
    stage.cut_power(2)
    stage.elect(1, isr=(1,))
    stage.append("c")
    stage.flush(1)
    stage.say("broker 2 comes back")
    stage.start(2)
    stage.catch_up(2)
    stage.show()
    stage.must_hold_the_acked()
    return stage


def kip_101_replicas_diverge_after_a_power_cut() -> Stage:
    """KIP-101, scenario 2: replicas stayed different for ever when each had lost another end of its log.

    Broker 1 has flushed b, which was never acked; broker 2 has lost it, is elected, and writes c in its place.
    """
    stage = Stage()
    stage.elect(1)
    stage.append("a")
    stage.flush(1)
    stage.fetch(2)
    stage.flush(2)
    stage.fetch(2)
    stage.append("b")
    stage.flush(1)
    stage.fetch(2)
    stage.say("b is on the disk of broker 1, and in the page cache of broker 2")
    stage.cut_power(1)
    stage.cut_power(2)
    stage.start(2)
    stage.elect(2, isr=(2,))
    stage.append("c")
    stage.flush(2)
    stage.start(1)
    stage.catch_up(1)
    stage.show()
    stage.must_hold_the_acked()
    return stage


def kip_279_epochs_that_the_other_does_not_have() -> Stage:
    """KIP-279: leaders changed so quickly that each replica has epochs that the other one never saw, and two are empty.

    One question is not enough: the follower asks about its epoch 3, then about its epoch 1.
    """
    stage = Stage()
    stage.elect(1)
    stage.append("a")
    stage.flush(1)
    stage.catch_up(2)
    for leader_id, values in ((1, "b"), (2, "cd"), (1, "e"), (2, ""), (1, ""), (2, "")):
        stage.elect(leader_id)
        stage.append(*values)
        stage.flush(leader_id)
    stage.say("epochs 4 and 5 are empty; nobody has fetched since epoch 0")
    stage.show()
    stage.catch_up(1)
    stage.show()
    stage.must_hold_the_acked()
    return stage


def kip_966_a_power_cut_and_then_a_lost_disk() -> Stage:
    """KIP-966: all three lose power one after the other, and the disk of the last ISR member is lost.

    The second replica left the ISR when it was too small to commit without it, so it is in the ELR, and has b. The
    third left before b was written; it comes back first, and must not lead.
    """
    stage = ControlledStage()
    first, second, third = stage.replicas
    stage.append("a")
    stage.flush(first)
    stage.copy(second)
    stage.copy(third)
    stage.cut_power(third)
    stage.end_session(third)
    stage.append("b")
    stage.flush(first)
    stage.copy(second)
    stage.cut_power(second)
    stage.end_session(second)
    stage.cut_power(first)
    stage.end_session(first)
    stage.come_back(third)
    stage.come_back(second)
    (follower,) = {second, third} - {stage.leader_id}
    stage.copy(follower)
    stage.join(follower)
    stage.come_back_without_disk(first)
    stage.append("c")
    stage.flush(stage.leader_id)
    stage.copy(follower)
    stage.copy(first)
    stage.join(first)
    stage.show()
    stage.must_hold_the_acked()
    return stage


Scene = Callable[[], Stage]
SCENES: dict[Scene, Edit] = {
    kip_101_a_follower_restarts_and_is_elected: Edit(
        Partition.become_follower,
        "    return is_new",
        "    self.log.truncate_to(self.high_watermark)\n    return is_new",
    ),
    kip_101_replicas_diverge_after_a_power_cut: Edit(
        partition_reads.divergence, "return diverging_epoch(", "return None and diverging_epoch("
    ),
    kip_279_epochs_that_the_other_does_not_have: Edit(
        epochs.truncation_offset,
        "min(answer.end_offset, own.end_offset, log_end_offset)",
        "min(answer.end_offset, log_end_offset)",
    ),
    kip_966_a_power_cut_and_then_a_lost_disk: Edit(
        election.eligible_replicas, "{*partition.isr, *partition.elr}", "set(partition.replicas)"
    ),
}
"""With the mistake that its end must not survive."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_transcript_is_as_reviewed(scene: Scene) -> None:
    compare(TRANSCRIPTS, scene.__name__, inspect.getdoc(scene), scene().lines)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_scene_fails_with_the_mistake_that_it_is_about(scene: Scene) -> None:
    mistake = Mutant(scene.__name__, "", (SCENES[scene],))
    with switched_on(mistake), pytest.raises(AssertionError, match=r"was acked|broker \d has"):
        scene()
