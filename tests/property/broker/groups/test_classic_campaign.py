"""The campaign of classic groups holds for some seeds, and finds each of these faults of the core.

More seeds: `python -m tests.support.classic_campaign --seeds N`.
"""

from __future__ import annotations

from typing import Any

import pytest

import broker.groups.classic.sync as sync_module
from broker.groups.classic.classic_groups import ClassicGroups
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.join import Joins
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.rounds import Rounds
from tests.support.amount import usually
from tests.support.classic_campaign import Campaign

SEEDS = usually(4, long=25)
SEEDS_OF_A_FAULT = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_group_keeps_its_promises_whatever_its_members_do(seed: int) -> None:
    Campaign(seed).run()


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _same_generation(group: ClassicGroup, wall_ms: int) -> None:
    GENUINE_BEGIN(group, wall_ms)
    group.generation -= group.generation > 1


def _forgets_the_first(rounds: Rounds, turn: Any, group: ClassicGroup, member: ClassicMember, ticket: Any) -> None:
    group.joining += member.join_ticket is None
    member.join_ticket = ticket


def _without_a_record(joins: Joins, arrival: Any, group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> None:
    joins._rounds.end_session(group, old.member_id)
    new.assignment = old.assignment
    group.replace(old, new)
    joins._rounds.restart_session(arrival.turn, group, new)
    arrival.turn.answer(arrival.ticket, joins._rounds.joined(group, new))


GENUINE_BEGIN = ClassicGroup.begin_generation
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "the generation of a sync is not checked": (sync_module, "check_generation", _nothing),
    "a generation has the number of the one before": (ClassicGroup, "begin_generation", _same_generation),
    "syncs that wait are not refused by a rebalance": (Rounds, "refuse_syncs", _nothing),
    "a loaded member has no session": (ClassicGroups, "loaded", _nothing),
    "a session that ends drops nobody": (Rounds, "_session_ended", _nothing),
    "a join that was given up is not answered": (Rounds, "wait_for_join", _forgets_the_first),
    "a load keeps what an older record said": (ClassicMember, "says", lambda *_: True),
    "a replaced static member is not written": (Joins, "_go_on_with", _without_a_record),
    "nobody goes on when members come or leave": (Rounds, "go_on", _nothing),
    "members that do not sync are never dropped": (Rounds, "_syncs_waited", _nothing),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_core_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, instead = FAULTS[name]
    monkeypatch.setattr(owner, attribute, instead)
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or what the fault leads to
        for seed in range(SEEDS_OF_A_FAULT):
            Campaign(seed).run()
