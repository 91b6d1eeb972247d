"""Disks that are replaced, lost in part, or put into the wrong machine, and what an operator does about it.

A disk is lost only while the cluster is whole: then every record, and every promise of a voter, is on other disks too.
Past that nothing is promised, and the fault is left out. While a log dir is not there, or is another node's, its node
must refuse to start. Then the operator formats what is new, with `--rejoin` for a voter, and gives the old up.

With three replicas and `min.insync.replicas=2` a disk may also be lost in a power cut of all machines, in whatever
state the cluster was: see `lose_in_cut`.

Where the voters change (voters/), a new disk is another voter: its operator formats it with `--join`, and those of the
quorum remove the old one and add it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.node.commands.format import format_node
from broker.node.commands.initial_controllers import QuorumOptions
from metadata.registrations import PartitionRegistration
from penstock.types import NO_LEADER, TopicPartition
from raft.quorum_state import Forgotten
from storage.disk.file_names import META_PROPERTIES, PARTITION_METADATA, partition_directory
from storage.log_dirs.meta_properties import read_meta_properties
from tests.simulation.cluster.durable_log import durable_entries, parts_of

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.plan import Fault
    from tests.simulation.cluster.world import World
    from tests.support.losing_fs import Directory, File, LosingFileSystem

Ends = Callable[[], object]
FORGETFUL_SHARE = 0.4
REFUSED_SECONDS = 1.5
"""So long a broker is started again and again that the controller refuses."""


class DiskWork:
    """The faults of a world's disks, until its operator has mended them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._open: dict[str, Ends] = {}
        """By the machine's name."""

    def end_all(self) -> None:
        """Ends all faults, also those that an end begins."""
        while self._open:
            self._end(next(iter(self._open)))

    def _end(self, name: str) -> None:
        end = self._open.pop(name, None)
        if end is not None:
            end()

    def is_open(self, machine: Machine) -> bool:
        """True if something is wrong with its disks that is not mended yet."""
        return machine.name in self._open

    def began(self, machine: Machine, end: Ends) -> Ends:
        """Something is, until the end that is returned is called."""
        self._open[machine.name] = end
        return lambda: self._end(machine.name)

    def leave_out(self, fault: Fault, why: str) -> Ends:
        self.world.outcome.faults[f"{fault.kind.name} left out"] += 1
        self.world.say(f"left out: {why}")
        return _nothing

    # -- a disk that is lost -------------------------------------------------------------------------------------------

    def lose(self, fault: Fault, machine: Machine, log_dirs: Sequence[str]) -> Ends:
        """The log dirs are gone, or empty, for good."""
        why = self.not_covered(machine, log_dirs)
        if why:
            return self.leave_out(fault, why)
        self.world.invariants.excuse(machine)
        machine.kill()
        lost = {path: machine.disk.directory_at(path) for path in log_dirs}
        ids = _wipe(machine, log_dirs, is_empty=fault.amount < 0.5)
        self._note_disk(machine)
        machine.start()
        is_forgetful = fault.amount % 0.5 < FORGETFUL_SHARE / 2

        def end() -> None:
            if _has_started(machine):
                self.world.fail(f"{machine.name} has started without {', '.join(log_dirs)}")
            machine.kill()
            if why := self._last_copy(machine):
                self._find_again(machine, lost, why)
            elif machine.config.is_broker and not self._rejoins(machine, lost) and is_forgetful:
                self._replace_forgetfully(machine, lost, ids)
            else:
                self._replace(machine, log_dirs, ids)

        return self.began(machine, end)

    def _replace_forgetfully(self, machine: Machine, lost: Mapping[str, Directory], ids: Sequence[str]) -> None:
        """The operator formats, and does not say at first what is given up: the controller must refuse the broker.

        No voter that lost its metadata log: it takes part in the quorum again, and the old disk must not come back."""
        self._format(machine, list(lost))
        machine.start()

        def end() -> None:
            is_new = machine.config.node_id in self.world.invariants.metadata.forgotten
            if machine.is_in_service and not is_new:
                self.world.fail(f"{machine.name} is in service without {', '.join(lost)}, which was not given up")
            machine.kill()
            if why := self._last_copy(machine):
                self._find_again(machine, lost, why)
            else:
                self._give_up(machine, ids)

        over = self.began(machine, end)
        self.world.at(self.world.scheduler.now_s + REFUSED_SECONDS, over)

    def _find_again(self, machine: Machine, lost: Mapping[str, Directory], why: str) -> None:
        """Meanwhile all others have left an ISR. Nothing is promised without the old disk: the operator finds it."""
        self.world.say(f"{machine.name}: its operator puts the old disk back: {why}")
        for path, directory in lost.items():
            place(machine.disk, path, directory)
        self._note_disk(machine)
        self.world.invariants.excuse_no_more(machine)
        machine.start()

    def lose_in_cut(self, fault: Fault, machine: Machine, log_dirs: Sequence[str]) -> Ends:
        """All machines lose their power, and one its log dirs. Before that one is back, the others must lead all."""
        world = self.world
        for each in world.machines:
            each.cut_power()
        world.invariants.excuse(machine)
        lost = _wipe(machine, log_dirs, is_empty=fault.amount < 0.3)
        for each in world.machines:
            if each is not machine:
                each.power_back()
                each.start()

        def end() -> None:
            for name, topic in world.invariants.metadata.newest.topics_by_name.items():
                for number, partition in topic.partitions.items():
                    if partition.leader_id in (NO_LEADER, machine.config.node_id):
                        world.fail(f"{name}-{number} has no leader while {machine.name} is down: {partition}")
            machine.power_back()
            self._replace(machine, log_dirs, lost)

        return self.began(machine, end)

    def _replace(self, machine: Machine, log_dirs: Sequence[str], lost: Sequence[str]) -> None:
        """The operator's repair: formats, and starts the node with what is given up."""
        self._format(machine, log_dirs)
        self._give_up(machine, lost)

    def _format(self, machine: Machine, log_dirs: Sequence[str]) -> None:
        rejoins, config = self._rejoins(machine, log_dirs), machine.config
        if rejoins and self.world.plan.voter_changes is not None:
            machine.config = replace(
                config,
                controller_quorum_voters={},
                controller_quorum_bootstrap_servers=self.world.quorum.controllers,
            )
            join = QuorumOptions(join=True)
            format_node(machine.config, self.world.cluster_id, machine.disk, machine.ids(), quorum=join)
            self._note_disk(machine)
        else:
            format_node(config, self.world.cluster_id, machine.disk, machine.ids(), rejoin=rejoins)

    def _note_disk(self, machine: Machine) -> None:
        """Where voters are disks: it has another one, or none."""
        if self.world.plan.voter_changes is not None:
            self.world.invariants.quorum.disk_changed(machine)

    def _spares_voter(self, machine: Machine) -> bool:
        """True if the quorum goes on without what this disk has promised."""
        if self.world.plan.voter_changes is not None:
            return self.world.invariants.quorum.spares_disk(machine)
        return len(machine.config.first_voters) >= 3

    def _rejoins(self, machine: Machine, log_dirs: Collection[str]) -> bool:
        """True if a voter lost what it promised the quorum, with these log dirs."""
        return machine.config.is_controller and machine.config.metadata_log_dir in log_dirs

    def _give_up(self, machine: Machine, lost: Sequence[str]) -> None:
        config = machine.config
        if config.is_broker:
            machine.config = replace(config, lost_log_dirs=(*config.lost_log_dirs, *lost))
        machine.start()

    def not_covered(self, machine: Machine, log_dirs: Sequence[str]) -> str:
        """Why nothing is promised if these log dirs are lost; empty where all is."""
        if self._open or self.world.invariants.has_excused():
            return "another disk is not mended yet"
        if self._rejoins(machine, log_dirs) and not self._spares_voter(machine):
            return "no other voters are a majority"
        has_promised = machine.config.is_broker or self.world.plan.voter_changes is None
        if not has_promised and not self.world.invariants.quorum.counts_on(machine):
            return ""
        return self._not_whole() or self._last_copy(machine)

    def _not_whole(self) -> str:
        """Why the other disks may lack something."""
        world = self.world
        if not world.all_in_service() or any(m.process is None or m.process.is_paused for m in world.machines):
            return "a node is not in service"
        if any(link.is_cut for link in world.network.links.values()):
            return "a link is cut"
        if not world.isrs_are_full():
            return "an ISR is not full"
        nodes = [machine.node for machine in world.machines if machine.node is not None]
        if len({node.loader.image.offset for node in nodes}) > 1:
            return "a node has not all of the metadata"
        cores = [node.raft.core for node in nodes]
        if any(core is None or core.forgotten is not Forgotten.NOTHING for core in cores):
            return "a voter has not learned again what it may have promised"
        return ""

    def _last_copy(self, machine: Machine) -> str:
        """A member of an ISR has no copy yet if a power cut would take its log's name: nothing was flushed there. One
        that is not in service leaves the ISR when it comes back."""
        for key, partition in _partitions(self.world):
            staying = set(partition.isr).intersection(partition.target_replicas)
            others = (member for member in staying if member != machine.config.node_id)
            if machine.config.node_id in partition.isr and not any(self._has_copy(member, key) for member in others):
                return f"the last copy of {key}"
        return ""

    def _has_copy(self, broker_id: int, key: TopicPartition) -> bool:
        machine = next(each for each in self.world.machines if each.config.node_id == broker_id)
        if not machine.is_in_service:
            return False
        places = (f"{log_dir}/{partition_directory(key)}" for log_dir in machine.config.log_dirs)
        return any(PARTITION_METADATA in (durable_entries(machine.disk, parts_of(place)) or ()) for place in places)

    def why_not_stopped(self, machine: Machine) -> str:
        """Why nobody stops this node in order: it has the only copy, until the others have said what they have lost.

        Meanwhile a node that is down leaves the ISR when it comes back, so its copy does not count.
        """
        is_excused = self.world.invariants.partitions.is_excused
        down = {each.config.node_id for each in self.world.machines if each.process is None}
        for key, partition in _partitions(self.world):
            lost = {member for member in partition.isr if is_excused(member)}
            if set(partition.isr) - lost - (down if lost else set()) == {machine.config.node_id}:
                return "" if len(partition.isr) == 1 else f"the only copy of {key} that is left"
        return ""

    # -- a disk in the wrong machine -----------------------------------------------------------------------------------

    def swap(self, fault: Fault, machine: Machine, other: Machine) -> Ends:
        """One log dir of each is in the other, until somebody notices."""
        if machine is other or self._open or self.world.invariants.has_excused():
            return self.leave_out(fault, "there is no other machine, or a disk is not mended yet")
        for each in (machine, other):
            self.world.invariants.excuse(each, comes_back=True)
            each.kill()
        one, two = machine.config.log_dirs[-1], other.config.log_dirs[-1]
        _exchange(machine, one, other, two)
        for each in (machine, other):
            each.start()

        def back() -> None:
            for each in (machine, other):
                self._open.pop(each.name, None)
                if _has_started(each):
                    self.world.fail(f"{each.name} has started with a log dir of another node")
                each.kill()
            _exchange(machine, one, other, two)
            for each in (machine, other):
                self.world.invariants.excuse_no_more(each)
                each.start()

        self.began(other, back)
        return self.began(machine, back)


def _partitions(world: World) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
    for name, topic in world.invariants.metadata.newest.topics_by_name.items():
        for number, partition in topic.partitions.items():
            yield TopicPartition(name, number), partition


def _wipe(machine: Machine, log_dirs: Sequence[str], *, is_empty: bool) -> list[str]:
    """They are gone, or empty; returns the directory ids that are lost."""
    lost = [_directory_id(machine.disk, path) for path in log_dirs]
    for path in log_dirs:
        place(machine.disk, path, None)
        if is_empty:
            machine.disk.mkdir(path)
            machine.disk.fsync_dir(posixpath.dirname(path))
    return lost


def _exchange(machine: Machine, one: str, other: Machine, two: str) -> None:
    mine, theirs = machine.disk.directory_at(one), other.disk.directory_at(two)
    place(machine.disk, one, theirs)
    place(other.disk, two, mine)


def place(disk: LosingFileSystem, path: str, node: File | Directory | None) -> None:
    """Puts a node at a path, durably."""
    parent, name = disk.parent_of(path)
    parent.change({name: node})
    parent.sync()


def _directory_id(disk: LosingFileSystem, path: str) -> str:
    found = read_meta_properties(disk, path)
    assert found is not None, f"{path} has no {META_PROPERTIES}"
    return found.directory_id


def _has_started(machine: Machine) -> bool:
    """Where a disk does not answer, nobody can see what is on it: the node runs on the others, as it should."""
    node = machine.node
    return node is not None and not node.failed_log_dirs and not node.log_manager.offline_log_dirs


def _nothing() -> None:
    """It did not begin."""
