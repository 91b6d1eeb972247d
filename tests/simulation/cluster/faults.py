"""Each kind of fault: its effect on a world, and how it ends.

A fault may come while another lasts: a start of a node that is up, or has no power, does nothing. At the end of the
story everything is mended by `World.heal`, whatever was left.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.quorum.metadata_log import QUORUM_STATE_FILE
from storage.disk.file_names import (
    CLEAN_SHUTDOWN,
    DELETE_DIRECTORY_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    MOVED_DIRECTORY_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.simulation.cluster import half_turns, moments, old_copies, rot, torn_metadata
from tests.simulation.cluster.conditions import active_controllers, newest_image
from tests.simulation.cluster.disk import SHORT_WRITE, Strike
from tests.simulation.cluster.hangs import KINDS, Hang
from tests.simulation.cluster.plan import Aim, Fault, Kind

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.world import World

FAILING_CALLS = (
    *((call, errno.EIO) for call in ("write", "fdatasync", "pread", "create", "rename", "fsync_dir", "unlink")),
    *((call, errno.EIO) for call in ("open", "truncate", "listdir", "read_file")),
    *((call, errno.ENOSPC) for call in ("write", "create", "rename", "mkdir")),
    *((call, errno.EMFILE) for call in ("open", "create", "dup")),
    (SHORT_WRITE, errno.ENOSPC),
)
"""One of these, once: no system reports a full disk for a read or a sync."""
STRUCK_CALLS = (
    *((call, LOG_SUFFIX, is_after) for call in ("write", "fdatasync", "truncate") for is_after in (False, True)),
    ("create", LOG_SUFFIX, True),
    ("unlink", LOG_SUFFIX, True),
    *(
        ("rename", name, is_after)
        for name in (
            RECOVERY_POINT_CHECKPOINT,
            HIGH_WATERMARK_CHECKPOINT,
            LOG_START_CHECKPOINT,
            LEADER_EPOCH_CHECKPOINT,
            QUORUM_STATE_FILE,
        )
        for is_after in (False, True)
    ),
    ("fsync_dir", "topic", False),
    ("fsync_dir", "topic", True),
    ("unlink", CLEAN_SHUTDOWN, True),
    ("mkdir", "topic", True),
    *(
        ("rename", name, is_after)
        for name in (MOVED_DIRECTORY_SUFFIX, DELETE_DIRECTORY_SUFFIX)
        for is_after in (False, True)
    ),
)
"""(Call, part of the path, whether it is carried out): the steps at which the order of things decides what is left."""
LATE_MESSAGES = (
    *((call, is_answer) for call in ("AlterPartition", "Fetch", "Produce", "Vote") for is_answer in (False, True)),
    *((call, False) for call in ("BrokerHeartbeat", "RegisterBroker", "FetchMetadata", "BeginQuorumEpoch")),
    *((call, True) for call in ("RegisterBroker", "FetchMetadata", "Metadata", "CreateTopics")),
    ("AlterPartition", False),
    ("AssignReplicasToDirs", False),
)
"""(RPC, whether its answer is late); one that stands here twice is drawn twice as often."""
Ends = Callable[[], object]


def begin(world: World, fault: Fault) -> Ends:
    """Does what begins the fault; returns what ends it."""
    machine, other = world.machines[fault.target], world.machines[fault.other]
    return BEGIN[fault.kind](world, fault, machine, other)


def aimed(world: World, fault: Fault) -> Fault:
    """The fault with the target that its aim finds now; the one that was drawn where nobody fits."""
    found = list(_fitting(world, fault.aim))
    if not found:
        return fault
    target = found[int(fault.amount * len(found))]
    return replace(fault, target=target, other=fault.target if fault.other == target else fault.other)


def _fitting(world: World, aim: Aim) -> Iterator[int]:
    if aim is Aim.CONTROLLER:
        yield from (machine.config.node_id for machine in active_controllers(world))
    for topic in newest_image(world).topics_by_name.values() if aim in (Aim.LEADER, Aim.FOLLOWER) else ():
        for partition in topic.partitions.values():
            for member in partition.isr:
                if (member == partition.leader_id) == (aim is Aim.LEADER):
                    yield member


def _kill(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    machine.kill()
    return machine.start


def _stop(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    if why := world.disks.why_not_stopped(machine):
        return world.disks.leave_out(fault, why)
    machine.stop()
    return machine.start


def _pause(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    machine.pause()
    return machine.go_on


def _power(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    machine.cut_power()
    return lambda: _power_back(machine)


def _power_all(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    for each in world.machines:
        each.cut_power()
    return lambda: [_power_back(each) for each in world.machines]


def _power_back(machine: Machine) -> None:
    machine.power_back()
    machine.start()


def _cut(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return world.cut([(machine.name, other.name), (other.name, machine.name)])


def _cut_one_way(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return world.cut([(machine.name, other.name)])


def _isolate(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    """From clients, too, half of the time."""
    names = [each.name for each in world.machines if each is not machine]
    if fault.amount < 0.5:
        names.append(world.clients.name)
    return world.cut([way for name in names for way in ((machine.name, name), (name, machine.name))])


def _break(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    world.network.break_between(machine.name, other.name if fault.amount < 0.7 else world.clients.name)
    return _nothing


def _storm(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    calm = world.plan.weather
    world.network.weather = replace(calm, usual_seconds=0.1 * fault.amount, late_seconds=5.0, late_per_mille=20)

    def end() -> None:
        world.network.weather = calm

    return end


def _log_dir(machine: Machine, fault: Fault) -> str:
    dirs = machine.config.log_dirs
    return dirs[int(fault.amount * len(dirs))]


def _slow_disk(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    log_dir = _log_dir(machine, fault)
    machine.faults.slow_seconds[log_dir] = 0.02 + fault.amount * 0.8
    return lambda: machine.faults.slow_seconds.pop(log_dir, None)


def _hung_disk(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    """A node that gave the log dir up meanwhile is started again: it does not look at it before."""
    log_dir, hung = _log_dir(machine, fault), machine.faults.hung
    if log_dir in hung:
        return _nothing
    kind = int(fault.amount * 7919) % len(KINDS)
    hang = hung[log_dir] = Hang(KINDS[kind], world.scheduler.now_s)
    world.say(f"{machine.name}: {log_dir} hangs ({', '.join(sorted(hang.calls))})")

    def end() -> None:
        hang.is_over = True
        if hung.get(log_dir) is hang:
            del hung[log_dir]
        if machine.node is not None and log_dir in machine.node.log_manager.calls.given_up:
            machine.kill()
            machine.start()

    return end


def _full_disk(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    log_dir = _log_dir(machine, fault)
    machine.faults.full.add(log_dir)
    return lambda: machine.faults.full.discard(log_dir)


def _dead_disk(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    log_dir = _log_dir(machine, fault)
    machine.faults.failing[log_dir] = errno.EIO

    def end() -> None:
        machine.kill()
        machine.faults.failing.pop(log_dir, None)
        machine.start()

    return end


def _fail_call(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    call, code = FAILING_CALLS[int(fault.amount * len(FAILING_CALLS))]
    machine.faults.fail_next[call] = code
    world.say(f"{machine.name}: the next {call} fails with {errno.errorcode[code]}")
    return machine.faults.fail_next.clear


def _strike_call(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    choice = int(fault.amount * len(STRUCK_CALLS) * 2)
    call, part, is_after = STRUCK_CALLS[choice // 2]
    blow = machine.kill if choice % 2 else machine.cut_power
    ends: list[Ends] = []

    def struck() -> None:
        ends.append(lambda: _power_back(machine))
        world.say(f"{machine.name}: struck {'after' if is_after else 'before'} {call} of {part}")
        world.scheduler.at(world.scheduler.now_s, world.network.manager, blow)

    def end() -> None:
        machine.faults.strike = None
        for bring_back in ends:
            bring_back()

    machine.faults.strike = Strike(call, part, is_after, struck)
    return end


def _late_message(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    call, is_answer = LATE_MESSAGES[int(fault.amount * len(LATE_MESSAGES))]
    world.network.late_next[machine.name, call, is_answer] = fault.seconds
    world.say(f"{machine.name}: the next {call} comes late{' with its answer' if is_answer else ''}")
    return lambda: world.network.late_next.pop((machine.name, call, is_answer), None)


def _cold(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    machine.faults.cold_share = 1.0

    def end() -> None:
        machine.faults.cold_share = world.plan.cold_share

    return end


def _wall_jump(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    machine.time.jump_ms(int((fault.amount - 0.5) * 2 * 600_000))
    return _nothing


def _roll(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    world.roll()
    return _nothing


def _moment(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    moments.strike(world, fault)
    return _nothing


def _half_turn(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    half_turns.strike_half_turn(world, fault)
    return _nothing


def _lose_dir(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return world.disks.lose(fault, machine, [_log_dir(machine, fault)])


def _replace_disk(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return world.disks.lose(fault, machine, machine.config.log_dirs)


def _lose_in_cut(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    dirs = machine.config.log_dirs if fault.amount < 0.6 else [_log_dir(machine, fault)]
    return world.disks.lose_in_cut(fault, machine, dirs)


def _swap_dirs(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return world.disks.swap(fault, machine, other)


def _tear_metadata(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return torn_metadata.tear(world, fault, machine)


def _restore_copy(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return old_copies.copy(world, fault, machine)


def _rot(world: World, fault: Fault, machine: Machine, other: Machine) -> Ends:
    return rot.rot(world, fault, machine)


def _nothing() -> None:
    """It was over at once."""


BEGIN: dict[Kind, Callable[[World, Fault, Machine, Machine], Ends]] = {
    Kind.KILL: _kill,
    Kind.STOP: _stop,
    Kind.PAUSE: _pause,
    Kind.POWER: _power,
    Kind.POWER_ALL: _power_all,
    Kind.CUT: _cut,
    Kind.CUT_ONE_WAY: _cut_one_way,
    Kind.ISOLATE: _isolate,
    Kind.BREAK: _break,
    Kind.STORM: _storm,
    Kind.SLOW_DISK: _slow_disk,
    Kind.HUNG_DISK: _hung_disk,
    Kind.FULL_DISK: _full_disk,
    Kind.DEAD_DISK: _dead_disk,
    Kind.FAIL_CALL: _fail_call,
    Kind.STRIKE_CALL: _strike_call,
    Kind.LATE_MESSAGE: _late_message,
    Kind.COLD: _cold,
    Kind.WALL_JUMP: _wall_jump,
    Kind.LOSE_DIR: _lose_dir,
    Kind.REPLACE_DISK: _replace_disk,
    Kind.LOSE_IN_CUT: _lose_in_cut,
    Kind.SWAP_DIRS: _swap_dirs,
    Kind.TEAR_METADATA: _tear_metadata,
    Kind.RESTORE_COPY: _restore_copy,
    Kind.ROT: _rot,
    Kind.ROLL: _roll,
    Kind.MOMENT: _moment,
    Kind.HALF_TURN: _half_turn,
}
