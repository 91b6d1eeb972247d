"""Power cuts that leave a hole in a voter's metadata log: its start takes that for a loss, so no two voters get one."""

from __future__ import annotations

from penstock.record.builder import build_batch
from tests.simulation.cluster.durable_log import DurableLog
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.test_invariants import Scene, judged
from tests.simulation.cluster.torn_metadata import DiskThen, directory_of, keep_order, newest_log
from tests.support.losing_fs import LosingFileSystem


def _tail(machine: Machine, disk: LosingFileSystem) -> tuple[str, int] | None:
    log = DurableLog(DiskThen(machine.name, disk), directory_of(machine))
    log.refresh()
    return log.doubtful_tail()


def _with_hole(machine: Machine) -> tuple[str, int, LosingFileSystem]:
    """The log's file, where a batch was lost that had one behind it, and a disk in which that is so."""
    left = machine.disk.after_crash()
    path = newest_log(machine)
    assert path is not None
    log = DurableLog(DiskThen(machine.name, left), directory_of(machine))
    log.refresh()
    batches = [build_batch([b"x"], timestamps_ms=0, base_offset=log.end + n, leader_epoch=1) for n in range(2)]
    file = left.file_at(path)
    end = len(file.data)
    file.change(end + len(batches[0]), bytes(batches[1]))
    file.sync()
    return path, end, left


def test_the_hole_stays_while_the_others_have_all_and_goes_when_they_cannot_spare_this_voter() -> None:
    found: list[tuple[str, object]] = []

    def look(scene: Scene) -> None:
        world, quorum = scene.world, scene.invariants.quorum
        struck, other = world.machines[:2]
        path, end, left = _with_hole(struck)
        found.append(("hole", _tail(struck, left) == (path, end)))
        keep_order(world, struck, left)
        found.append(("stays", _tail(struck, left) == (path, end)))
        quorum.excuse(other)
        keep_order(world, struck, left)
        found.append(("goes", (_tail(struck, left), len(left.durable(path))) == (None, end)))
        quorum.excuse_no_more(other)

    judged(look)
    assert found == [("hole", True), ("stays", True), ("goes", True)]


def test_a_hole_from_before_the_power_cut_stays_and_its_voter_counts_for_no_majority() -> None:
    found: list[tuple[str, object]] = []

    def look(scene: Scene) -> None:
        world, quorum = scene.world, scene.invariants.quorum
        struck, other, third = world.machines
        found.append(("spared", quorum.spares_another(other)))
        path, end, struck.disk = _with_hole(struck)
        found.append(("spared", quorum.spares_another(other)))
        quorum.excuse(third)
        left = struck.disk.after_crash()
        keep_order(world, struck, left)
        found.append(("stays", _tail(struck, left) == (path, end)))

    judged(look)
    assert found == [("spared", True), ("spared", False), ("stays", True)]
