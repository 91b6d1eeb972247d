"""The simulator notices mistakes: a few that die quickly, and the places of all the others."""

from __future__ import annotations

import builtins
import dis
from types import CodeType

import pytest

from broker.node.node import Node
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.simulation.cluster.mutants.hunt import MUTANTS, hunt, named
from tests.simulation.cluster.small_plan import small_plan
from tests.support.amount import at_night

QUICK = (
    "a leader counts itself before its flush",
    "a follower acknowledges before its flush",
    "voters change before the leader has committed in its epoch",
)
OTHERS = (
    "a request is complete before its partitions are",
    "acks=all waits for the leader alone",
    "a follower truncates to its high watermark",
    "a proposed ISR member does not count",
    "a damaged log is made anew under the epoch of its earlier fetches",
    "a deletion is answered without the replicas that may be elected",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_place_of_a_mutant_is_where_it_was_and_it_uses_no_name_that_is_not_there(mutant: Mutant) -> None:
    """It would die of that name instead of its mistake."""
    before = [edit.function.__code__ for edit in mutant.edits]
    with switched_on(mutant):
        assert all(edit.function.__code__ is not code for edit, code in zip(mutant.edits, before, strict=True))
        used = {
            (edit.function.__qualname__, name)
            for edit in mutant.edits
            for name in _global_names(edit.function.__code__)
            if name not in edit.function.__globals__ and not hasattr(builtins, name)
        }
    assert not used
    assert [edit.function.__code__ for edit in mutant.edits] == before


def _global_names(code: CodeType) -> set[str]:
    """The names that a function, and those inside it, take from their module."""
    here = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return here.union(*(_global_names(part) for part in code.co_consts if isinstance(part, CodeType)))


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("name", at_night([*QUICK, *OTHERS], long=OTHERS))
def test_a_mutant_dies_within_three_seeds(name: str) -> None:
    """These take some 2 s of processor time each; the hunt for all takes minutes."""
    assert hunt(0, named(name), stories_max=3).killer is not None


def test_a_client_that_goes_to_a_wrong_address_is_found_there_though_it_catches_what_it_meets() -> None:
    found = hunt(0, named("a hint names the address at the listener BROKER"), stories_max=0)
    assert "a client goes to" in found.why


def test_a_mutant_that_crashes_is_not_killed() -> None:
    edit = Edit(Node.start, "await self.quorum.start()", "await nobody.start()")
    found = hunt(0, Mutant("it crashes", "", (edit,), stories=(small_plan(seconds=1.0),)), stories_max=0)
    assert found.killer is None and "NameError" in found.slips[0]
