"""Log dirs of a node as they were some seconds ago, put back by an operator.

A copy of one node has forgotten what the node has acked and voted for since, and no file tells that (docs/adr/0009). So
this operator stops the node, and waits until it is fenced and out of every ISR and ELR, before the copy comes in the
place of its log dirs, without `quorum-state`. Then the voter asks the others for what it may have promised, and the
broker fetches what its replicas lack. At most a minority of the voters is so at a time; all else may go on meanwhile.

The copy is what a snapshot of all disks at one moment has: as after a power cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.quorum.metadata_log import QUORUM_STATE_FILE
from tests.simulation.cluster.conditions import live_nodes, newest_image
from tests.simulation.cluster.disk_faults import place
from tests.simulation.cluster.torn_metadata import directory_of

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.plan import Fault
    from tests.simulation.cluster.world import World
    from tests.support.losing_fs import LosingFileSystem

Ends = Callable[[], object]
LOOK_SECONDS, WAIT_SECONDS = 0.1, 10.0


def copy(world: World, fault: Fault, machine: Machine) -> Ends:
    """Makes the copy now. When the fault ends, the node is stopped and the copy is put back."""
    if machine.node is None:
        return world.disks.leave_out(fault, "the node is down, and what is on its disks may be damaged")
    snapshot = machine.disk.after_crash(machine.new_random())
    return lambda: _restore(world, fault, machine, snapshot)


def _restore(world: World, fault: Fault, machine: Machine, snapshot: LosingFileSystem) -> None:
    config, disks = machine.config, world.disks
    if config.is_controller and not world.invariants.quorum.spares_another(machine):
        disks.leave_out(fault, "no majority of the voters would have all that it promised")
        return
    if disks.is_open(machine) or not machine.has_power:
        disks.leave_out(fault, "another fault of its disks is not mended yet, or it has no power")
        return
    machine.kill()
    machine.is_held = True
    until_s = world.scheduler.now_s + WAIT_SECONDS
    ends = [node.raft.core.log_end_offset for _, node in live_nodes(world) if node.raft.core]
    beyond = max(*ends, world.invariants.quorum.written_end(), 0)

    def give_up() -> None:
        machine.is_held = False
        machine.start()

    end = disks.began(machine, give_up)

    def look() -> None:
        if not machine.is_held:
            return
        if config.is_controller and not world.invariants.quorum.spares_another(machine):
            disks.leave_out(fault, "another voter has forgotten meanwhile")
            end()
        elif _is_out(world, machine, beyond):
            _put_back(world, machine, snapshot)
            end()
        elif world.scheduler.now_s > until_s:
            disks.leave_out(fault, f"{machine.name} stays in an ISR")
            end()
        else:
            world.at(world.scheduler.now_s + LOOK_SECONDS, look)

    look()


def _is_out(world: World, machine: Machine, beyond: int) -> bool:
    """No partition counts on what the node has. A broker that is not fenced may come back into an ISR for what it had
    fetched before it was stopped. So may one whose last unfencing was not committed then: hence `beyond`, an offset of
    the metadata that was not written yet."""
    if not machine.config.is_broker:
        return True
    image, node_id = world.invariants.partitions.metadata.newest, machine.config.node_id
    partitions = [part for topic in image.topics_by_name.values() for part in topic.partitions.values()]
    broker = image.brokers.get(node_id)
    is_known = (broker is None or broker.fenced) and image.offset >= beyond  # None: it was forgotten
    return is_known and not any(node_id in (*part.isr, *part.elr) for part in partitions)


def _put_back(world: World, machine: Machine, snapshot: LosingFileSystem) -> None:
    config, disk = machine.config, machine.disk
    world.say(f"{machine.name}: its operator puts older log dirs back")
    if config.is_controller:
        world.invariants.quorum.excuse(machine)
    for path in config.log_dirs:
        place(disk, path, snapshot.directory_at(path))
    if config.is_broker:
        world.invariants.claims.put_back(config.node_id, newest_image(world))
    if config.is_controller:
        _tell_that_it_forgot(machine)


def _tell_that_it_forgot(machine: Machine) -> None:
    path = f"{directory_of(machine)}/{QUORUM_STATE_FILE}"
    if machine.disk.exists(path):
        machine.disk.unlink(path)
        machine.disk.fsync_dir(directory_of(machine))
