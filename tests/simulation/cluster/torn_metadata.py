"""Metadata logs that are damaged at or before their end, while their node is down.

A batch that the end of the file cuts short was never acked; power cuts leave such tails. Here a batch of full length is
damaged: a flipped bit anywhere in it, or nothing but zeros. It may have been acked, so the loss must be noticed
(docs/adr/0009): the voter says in its quorum-state file that it forgot records, or its node refuses to start. In the
second case the operator moves the directory away, as docs/data-directory.md says. The only voter must refuse: nobody
else has the records; its operator puts a backup back. A file that is only shorter is left out: no power cut
takes flushed bytes, and what a disk loses that lies about a flush nobody can notice.

A power cut may do the same to a leader of the quorum: of two batches that were not flushed yet its disk has kept the
second alone, and the start cannot tell that hole from a flushed batch that was lost.

At most a minority of the voters has a damaged log at a time: where no other majority has all that it promised, a disk
has kept what it was given in order. All else may go on meanwhile: other nodes may be down, and elections under way. Not
here: what a voter must have before it votes again (quorum_invariants.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.quorum.metadata_log import METADATA_PARTITION
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.record.batch import HEADER_BYTES
from storage.disk.file_names import CLEAN_SHUTDOWN, LOG_SUFFIX, partition_directory
from tests.simulation.cluster.disk_faults import place
from tests.simulation.cluster.durable_log import Batch, DurableLog, parse

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.plan import Fault
    from tests.simulation.cluster.world import World
    from tests.support.losing_fs import LosingFileSystem

Ends = Callable[[], object]
LOOK_SECONDS = 0.5
DIRECTORY = partition_directory(METADATA_PARTITION)


def tear(world: World, fault: Fault, machine: Machine) -> Ends:
    """Kills the node and damages its log; what follows from the fault's amount."""
    config = machine.config
    if not config.is_controller:
        return world.disks.leave_out(fault, "no voter")
    if world.disks.is_open(machine):
        return world.disks.leave_out(fault, "another fault of its disks is not mended yet")
    is_only = len(config.first_voters) == 1
    if not is_only and not world.invariants.quorum.spares_another(machine):
        return world.disks.leave_out(fault, "no majority of the voters would have all that it promised")
    machine.kill()
    path = newest_log(machine)
    if path is None or not (batches := parse(bytes(machine.disk.file_at(path).data), 0, None)[0]):
        machine.start()
        return world.disks.leave_out(fault, "the log is empty")
    world.invariants.quorum.excuse(machine)
    backup, refusals = machine.disk.clone().directory_at(directory_of(machine)), len(machine.refusals)
    world.say(f"{machine.name}: {damage(machine, path, batches, fault.amount)}")
    machine.start()

    def end() -> None:
        if is_only:
            if machine.node is not None:
                world.fail(f"{machine.name}, the only voter, has started with a damaged metadata log")
            machine.kill()
            place(machine.disk, directory_of(machine), backup)
            world.invariants.quorum.excuse_no_more(machine)
            machine.start()
        else:
            look()

    def look() -> None:
        """Until the node has started, or says why it does not."""
        if machine.node is None and has_refused(machine, refusals):
            _move_away(world, machine)
        elif machine.node is None:
            world.at(world.scheduler.now_s + LOOK_SECONDS, look)
        machine.start()

    return world.disks.began(machine, end)


def _move_away(world: World, machine: Machine) -> None:
    world.say(f"{machine.name}: its operator moves {DIRECTORY} away")
    machine.kill()
    place(machine.disk, directory_of(machine), None)


def damage(machine: Machine, path: str, batches: list[Batch], amount: float) -> str:
    """Damages one batch, most often the last; what was done.

    After an ordered stop it is the last: of older segments the start checks nothing, and what is behind an older batch
    still counts.
    """
    choice = int(amount * 1000)
    is_clean = machine.disk.exists(f"{machine.config.metadata_log_dir}/{CLEAN_SHUTDOWN}")
    place = len(batches) - 1 if choice % 4 or is_clean else choice % len(batches)
    begin = sum(len(batch.raw) for batch in batches[:place])
    batch = batches[place]
    what = f"{path}: batch {batch.base_offset}..{batch.next_offset - 1}, the last is {batches[-1].next_offset - 1}"
    if choice % 3 == 0:
        file = machine.disk.file_at(path)
        file.data[begin : begin + len(batch.raw)] = bytes(len(batch.raw))
        file.sync()
        return f"{what}: zeros"
    at = choice * 7919 % (HEADER_BYTES if choice % 3 == 1 else len(batch.raw))
    machine.disk.damage(path, begin + at, 1 << choice % 8)
    return f"{what}: byte {at} has changed"


@dataclass
class DiskThen:
    """The disk of a machine at some time."""

    name: str
    disk: LosingFileSystem


def keep_order(world: World, machine: Machine, left: LosingFileSystem) -> None:
    """The power cut of a voter that the others cannot spare has left no hole in its log. One that it had before stays:
    it stands for what may have been promised."""
    quorum = world.invariants.quorum
    if not machine.config.is_controller or quorum.spares_another(machine):
        return
    before, after = (DurableLog(DiskThen(machine.name, disk), directory_of(machine)) for disk in (machine.disk, left))
    before.refresh()
    after.refresh()
    hole = after.doubtful_tail()
    if hole is None or before.doubtful_tail() is not None:
        return
    first, position = hole
    world.say(f"{machine.name}: {first}: the power cut has left nothing behind byte {position}")
    for path in after.paths():
        if path >= first:
            left.cut(path, position if path == first else 0)


def directory_of(machine: Machine) -> str:
    return f"{machine.config.metadata_log_dir}/{DIRECTORY}"


def newest_log(machine: Machine) -> str | None:
    """The file to which the metadata log grows; None where there is no log."""
    if not machine.disk.exists(directory_of(machine)):
        return None
    names = [name for name in machine.disk.listdir(directory_of(machine)) if name.endswith(LOG_SUFFIX)]
    return f"{directory_of(machine)}/{max(names)}" if names else None


def has_refused(machine: Machine, before: int) -> bool:
    """True if its node has refused the metadata log since."""
    return any(
        isinstance(refusal, CorruptFileError | KafkaStorageError) and f"{directory_of(machine)}/" in str(refusal)
        for refusal in machine.refusals[before:]
    )
