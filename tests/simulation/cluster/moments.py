"""Faults that wait for their moment: a leader is struck when it has what nobody else has.

Most histories that have lost data need a crash within the few milliseconds between two steps, which a drawn time seldom
meets. So this fault looks at the nodes every millisecond until one of them is in the wanted state, and strikes it then.
If none is for WAIT_SECONDS, nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.replication.partition import Partition
from raft.quorum_state import State

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.plan import Fault
    from tests.simulation.cluster.world import World

Ends = Callable[[], object]
Moment = Callable[["Machine"], bool]
Blow = Callable[["World", "Machine"], Ends]
LOOK_SECONDS, WAIT_SECONDS, UP_SECONDS = 0.001, 2.0, 0.5


def strike(world: World, fault: Fault) -> None:
    """Waits for the moment, and then strikes for as long as the fault lasts; what, follows from the fault's amount."""
    choice = int(fault.amount * len(MOMENTS) * len(BLOWS))
    moment, blow = MOMENTS[choice // len(BLOWS)], BLOWS[choice % len(BLOWS)]
    machines = (*world.machines[fault.target :], *world.machines[: fault.target])
    until_s = world.scheduler.now_s + WAIT_SECONDS

    def look() -> None:
        if world.is_healing:
            return
        struck = next((machine for machine in machines if machine.is_up and moment(machine)), None)
        if struck is not None:
            world.say(f"{struck.name}: {moment.__name__.removeprefix('_')}: {blow.__name__.removeprefix('_')}")
            end = blow(world, struck)
            world.at(world.scheduler.now_s + fault.seconds, lambda: None if world.is_healing else end())
        elif world.scheduler.now_s < until_s:
            world.at(world.scheduler.now_s + LOOK_SECONDS, look)

    look()


# -- moments -----------------------------------------------------------------------------------------------------------


def _led(machine: Machine) -> Iterator[Partition]:
    node = machine.node
    if node is not None and node.broker is not None:
        yield from (
            partition for partition in node.broker.replication.replicas.hosted.all() if partition.leading is not None
        )


def _ahead_of_its_followers(machine: Machine) -> bool:
    return any(partition.high_watermark < partition.log.log_end_offset for partition in _led(machine))


def _between_append_and_flush(machine: Machine) -> bool:
    return any(partition.log.flushed_offset < partition.log.log_end_offset for partition in _led(machine))


def _proposing_an_isr(machine: Machine) -> bool:
    return any(partition.leading is not None and partition.leading.proposed is not None for partition in _led(machine))


def _elected_without_a_record(machine: Machine) -> bool:
    """It leads an epoch above the first one that has no record yet."""
    return any(
        partition.leading is not None
        and partition.leading.leader_epoch > 0
        and partition.leading.epoch_start_offset == partition.log.log_end_offset > 0
        for partition in _led(machine)
    )


def leading_the_quorum_with_something_uncommitted(machine: Machine) -> bool:
    core = machine.node.raft.core if machine.node is not None else None
    return core is not None and core.leadership is not None and core.high_watermark < core.log_end_offset


def _asking_for_votes(machine: Machine) -> bool:
    core = machine.node.raft.core if machine.node is not None else None
    return core is not None and core.state in (State.CANDIDATE, State.VOTED)


def _following_the_quorum_with_something_not_durable(machine: Machine) -> bool:
    core = machine.node.raft.core if machine.node is not None else None
    return core is not None and core.leadership is None and core.flushed_offset < core.log_end_offset


def _holding_what_its_leader_lacks(machine: Machine) -> bool:
    """A follower that will have to be cut."""
    node = machine.node
    for partition in (
        node.broker.replication.replicas.hosted.all() if node is not None and node.broker is not None else ()
    ):
        entries = partition.log.epoch_entries
        if partition.leading is None and entries and partition.high_watermark < partition.log.log_end_offset:
            return True
    return False


def _opening_its_logs(machine: Machine) -> bool:
    return machine.node is None and not machine.asked_to_stop.is_set()


def _back_a_moment_ago(machine: Machine) -> bool:
    """Its process is not the first, and its broker is not let in yet."""
    return machine.lives > 1 and machine.node is not None and not machine.is_in_service


MOMENTS: tuple[Moment, ...] = (
    _ahead_of_its_followers,
    _between_append_and_flush,
    _proposing_an_isr,
    _elected_without_a_record,
    leading_the_quorum_with_something_uncommitted,
    _asking_for_votes,
    _following_the_quorum_with_something_not_durable,
    _holding_what_its_leader_lacks,
    _opening_its_logs,
    _back_a_moment_ago,
)


# -- blows -------------------------------------------------------------------------------------------------------------


def _killed(world: World, machine: Machine) -> Ends:
    machine.kill()
    return machine.start


def _without_power(world: World, machine: Machine) -> Ends:
    machine.cut_power()

    def end() -> None:
        machine.power_back()
        machine.start()

    return end


def cut_off(world: World, machine: Machine) -> Ends:
    """From the other nodes; clients reach it."""
    names = [each.name for each in world.machines if each is not machine]
    return world.cut([way for name in names for way in ((machine.name, name), (name, machine.name))])


def _paused(world: World, machine: Machine) -> Ends:
    machine.pause()
    return machine.go_on


def _killed_and_then_without_power(world: World, machine: Machine) -> Ends:
    """It is up again for a moment in between."""
    machine.kill()
    machine.start()
    world.at(world.scheduler.now_s + UP_SECONDS, lambda: None if world.is_healing else machine.cut_power())

    def end() -> None:
        machine.power_back()
        machine.start()

    return end


BLOWS: tuple[Blow, ...] = (_killed, _without_power, cut_off, _paused, _killed_and_then_without_power)


def amount_of(moment: Moment, blow: Blow) -> float:
    """The amount of a fault that strikes such a blow in such a moment."""
    choice = MOMENTS.index(moment) * len(BLOWS) + BLOWS.index(blow)
    return (choice + 0.5) / (len(MOMENTS) * len(BLOWS))
