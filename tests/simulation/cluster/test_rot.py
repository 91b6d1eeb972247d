"""A bit that rots on the disk of one replica is found at a start or by a reader, and the replica is fetched anew."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Plan, ReaderKind, ReaderPlan, Task
from tests.simulation.cluster.world import World


def rot(amount: float, **config: object) -> Plan:
    """The preferred leader rots; it leads again soon, and one reader reads from the beginning again and again."""
    (plan,) = directed(
        Fault(2.0, Kind.ROT, 1, 2, 5.0, amount, Aim.LEADER),
        operators=(OperatorPlan(Task.ELECT, "topic-0", 0.5),),
        min_isr=2,
        seconds=7.5,
        tellings=1,
        log_flush_offset_checkpoint_interval_ms=200,
        **config,  # type: ignore[arg-type]
    )
    return replace(plan, readers=(ReaderPlan("topic-0", 0.02, ReaderKind.RESTART),))


def test_rot_that_the_start_finds_is_fetched_anew() -> None:
    outcome = World(rot(0.1)).run()
    assert not outcome.failures
    assert any("the log is offline" in line for line in outcome.log)
    assert any("fetching it anew" in line for line in outcome.log)


def test_rot_in_an_older_segment_is_found_by_its_reader() -> None:
    """Where it rots is drawn: the story is told with other seeds until it is in an older segment."""
    plan = rot(0.1, log_segment_bytes=4096)
    for seed in (4, 6, *range(8, 20)):
        outcome = World(replace(plan, seed=seed)).run()
        assert not outcome.failures
        if any("goes offline" in line for line in outcome.log):
            break
    else:
        raise AssertionError("no reader found rot")
    assert any("fetching it anew" in line for line in outcome.log)
