"""A transcript tells what a person needs to follow a story, and changes nothing of it."""

from __future__ import annotations

from tests.simulation.cluster.plan import Fault, Kind
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World


def test_a_transcript_tells_of_processes_leaders_isrs_and_acks_and_leaves_the_story_as_it_was() -> None:
    plan = small_plan(Fault(1.5, Kind.KILL, 1, 0, 3.0, 0.5))
    shown, quiet = World(plan, transcript=True).run(), World(plan).run()
    assert not shown.failures and shown.digest == quiet.digest and len(shown.log) > len(quiet.log)
    story = iter(shown.log)
    for expected in (
        "node-1#1 begins",
        "→ Leader, epoch 1",
        "broker 1 is unfenced",
        "topic-0-0: leader ",
        "clients: ",
        "fault: kill -9, then a start: node-1",
        "node-1#1 has ended",
        ": ISR [",
        "node-1#2 begins",
        "broker 1 is unfenced",
        ": ISR [",
    ):
        assert any(expected in line for line in story), f"not in the transcript, or not in this order: {expected}"
