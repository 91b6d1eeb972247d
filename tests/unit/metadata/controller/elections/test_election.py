"""Election rules on one partition, row by row."""

from __future__ import annotations

import pytest

from metadata.controller.elections.election import Circumstances, ElectedLeader, change_record, elect
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration

Ids = tuple[int, ...]


def partition(isr: Ids, leader_id: int) -> PartitionRegistration:
    return PartitionRegistration("id", 0, (1, 2, 3), isr, leader_id, 5, 9)


def everywhere(broker_id: int, _partition: PartitionRegistration) -> bool:
    return True


def outcome(isr: Ids, leader_id: int, active: Ids, *, leaving: Ids = (), unclean: bool = False) -> ElectedLeader:
    circumstances = Circumstances(
        active.__contains__,
        active.__contains__,
        everywhere,
        min_isr=1,
        leaving=leaving,
        unclean_allowed=unclean,
    )
    return elect(partition(isr, leader_id), circumstances)


@pytest.mark.parametrize(
    ("isr", "leader_id", "active", "leaving", "unclean", "expected"),
    [
        ((1, 2, 3), 1, (1, 2, 3), (), False, ElectedLeader((1, 2, 3), 1)),
        ((1, 2, 3), 3, (1, 2, 3), (), False, ElectedLeader((1, 2, 3), 3)),  # no preferred leader by itself
        ((1, 2, 3), 1, (1, 2, 3), (1,), False, ElectedLeader((2, 3), 2)),
        ((3, 2, 1), 1, (1, 2, 3), (1,), False, ElectedLeader((3, 2), 2)),  # replica order, not ISR order
        ((1, 2, 3), 1, (1, 3), (1, 2), False, ElectedLeader((3,), 3)),
        ((1, 2), 2, (1, 2, 3), (1,), False, ElectedLeader((2,), 2)),
        ((1,), 1, (1, 2, 3), (1,), False, ElectedLeader((1,), -1)),
        ((1,), 1, (1, 2, 3), (1,), True, ElectedLeader((2,), 2, unclean=True)),
        ((1,), 1, (), (1,), True, ElectedLeader((1,), -1)),
        ((1, 2, 3), 1, (), (2, 3, 1), False, ElectedLeader((1,), -1, (2, 3))),
        ((1, 2, 3), 1, (), (1, 3, 2), False, ElectedLeader((2,), -1, (1, 3))),
        ((2,), -1, (2, 3), (), True, ElectedLeader((2,), 2)),  # an ISR member lives: never unclean
        ((2,), -1, (1, 3), (), False, ElectedLeader((2,), -1)),
        ((2,), -1, (1, 3), (), True, ElectedLeader((1,), 1, unclean=True)),
    ],
)
def test_rules(isr: Ids, leader_id: int, active: Ids, leaving: Ids, unclean: bool, expected: ElectedLeader) -> None:
    assert outcome(isr, leader_id, active, leaving=leaving, unclean=unclean) == expected


def test_leader_that_shuts_down_goes_on_leading_when_a_follower_fails() -> None:
    circumstances = Circumstances(lambda broker: False, lambda broker: broker == 1, everywhere, min_isr=1, leaving=(2,))
    assert elect(partition((1, 2), 1), circumstances) == ElectedLeader((1,), 1)


def test_replica_in_a_failed_log_dir_is_not_elected_even_uncleanly() -> None:
    circumstances = Circumstances(
        lambda broker: True,
        lambda broker: broker != 1,
        lambda broker, _partition: broker != 2,
        min_isr=1,
        leaving=(1,),
        unclean_allowed=True,
    )
    assert elect(partition((1, 2, 3), 1), circumstances) == ElectedLeader((2, 3), 3)
    assert elect(partition((1, 2), 1), circumstances) == ElectedLeader((3,), 3, unclean=True)


def test_record_names_only_what_changes() -> None:
    before = partition((1, 2), 1)
    assert change_record(before, ElectedLeader((1, 2), 1)) is None
    assert change_record(before, ElectedLeader((1,), 1)) == PartitionChangeRecord("id", 0, isr=(1,))
    assert change_record(before, ElectedLeader((1, 2), 2)) == PartitionChangeRecord("id", 0, leader_id=2)
    assert change_record(before, ElectedLeader((1,), -1)) == PartitionChangeRecord("id", 0, isr=(1,), leader_id=-1)
