"""Moves between log dirs end, whatever strikes them; which directory is the replica is told from what is durable."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from broker.jobs.log_dir_moves.move_swap import MoveSwap
from broker.jobs.log_dir_moves.moves import Move
from broker.replication.partition import Partition
from penstock.types import TopicPartition
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, MOVED_DIRECTORY_SUFFIX
from storage.disk.partition_metadata import write_topic_id
from tests.simulation.cluster.log_places import ReplicaPlace
from tests.simulation.cluster.mutants.edit import switched_on
from tests.simulation.cluster.mutants.log_dirs import LOG_DIRS
from tests.simulation.cluster.mutants.stories import at_call, directed
from tests.simulation.cluster.plan import Fault, Kind, OperatorPlan, Task
from tests.simulation.cluster.world import World
from tests.support.amount import at_night, usually
from tests.support.losing_fs import LosingFileSystem

TP, TOPIC_ID, UNIQUE = TopicPartition("t", 0), "A" * 22, "B" * 22
MOVED, FUTURE = f"t-0.{UNIQUE}-moved", f"t-0.{UNIQUE}-future"


@dataclass
class Disk:
    """Two log dirs, a and b."""

    fs: LosingFileSystem

    def put(self, path: str, topic_id: str = TOPIC_ID) -> None:
        self.fs.mkdir(path)
        write_topic_id(self.fs, path, topic_id)
        self.fs.fsync_dir(path)
        self.fs.fsync_dir(path.rpartition("/")[0])

    def rename(self, old: str, new: str, *, is_synced: bool = True) -> None:
        self.fs.rename(old, new)
        if is_synced:
            self.fs.fsync_dir(old.rpartition("/")[0])


@pytest.fixture
def disk() -> Disk:
    fs = LosingFileSystem()
    for path in ("/a", "/b"):
        fs.mkdir(path)
    fs.fsync_dir("/")
    return Disk(fs)


def place_of(disk: Disk, directory: str = "/a/t-0") -> ReplicaPlace:
    machine: Any = SimpleNamespace(disk=disk.fs, config=SimpleNamespace(log_dirs=("/a", "/b")))
    return ReplicaPlace(machine, TP, TOPIC_ID, directory)


def test_a_replica_is_its_copy_as_soon_as_the_log_is_put_aside_durably(disk: Disk) -> None:
    disk.put("/a/t-0")
    disk.put(f"/b/{FUTURE}")
    place = place_of(disk)
    assert place.directory() == "/a/t-0"
    disk.rename("/a/t-0", f"/a/{MOVED}", is_synced=False)
    assert place.directory() == "/a/t-0"
    disk.fs.fsync_dir("/a")
    assert place.directory() == f"/b/{FUTURE}"
    disk.rename(f"/b/{FUTURE}", "/b/t-0")
    assert place.directory() == "/b/t-0"
    disk.rename(f"/a/{MOVED}", f"/a/t-0.{UNIQUE}-delete")
    assert place.directory() == "/b/t-0"


def test_a_log_that_was_put_aside_and_has_no_copy_is_the_replica(disk: Disk) -> None:
    disk.put(f"/a/{MOVED}")
    disk.put(f"/b/t-0.{'C' * 22}-future")
    assert place_of(disk).directory() == f"/a/{MOVED}"


def test_a_log_of_another_topic_of_that_name_is_not_the_replica(disk: Disk) -> None:
    disk.put("/b/t-0", "Z" * 22)
    assert place_of(disk).directory() == "/a/t-0"


STRIKES = [
    (suffix, is_after, is_kill)
    for suffix in (DELETE_DIRECTORY_SUFFIX, MOVED_DIRECTORY_SUFFIX)
    for is_after in (False, True)
    for is_kill in (False, True)
]


@pytest.mark.parametrize(("suffix", "is_after", "is_kill"), usually(STRIKES[::5], long=STRIKES))
def test_a_move_that_is_struck_at_a_rename_of_its_swap_loses_nothing(
    suffix: str, is_after: bool, is_kill: bool
) -> None:
    amount = at_call("rename", suffix, is_after=is_after, is_kill=is_kill)
    (plan,) = directed(
        *(Fault(0.5 + n / 10, Kind.STRIKE_CALL, 1 + n, 0, 3.0, amount) for n in range(3)),
        operators=(OperatorPlan(Task.RELOCATE, "topic-0", 0.3),),
        log_dirs=2,
        seconds=4.0,
        tellings=1,
    )
    outcome = World(plan).run()
    assert not outcome.failures
    assert any(": struck " in text for text in outcome.log)


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("the renames of a swap are not synced", "I49: "),
        *usually(
            (),
            long=(
                ("a copy takes the place of its log before it has everything", ("I13: ", "I14: ")),
                ("a replica whose log dir has failed goes on taking requests", "I56: "),
                ("the swap does not wait for the controller", "I51: "),
            ),
        ),
    ],
)
def test_a_mistake_of_moves_is_found(name: str, failure: str | tuple[str, ...]) -> None:
    (mutant,) = (mutant for mutant in LOG_DIRS if mutant.name == name)
    with switched_on(mutant):
        assert World(mutant.stories[0]).run().failures[0].startswith(failure)


@pytest.mark.parametrize("copies", at_night([1, 3], [3]))
def test_a_replica_whose_new_log_dir_fails_before_the_swap_comes_back_by_itself(
    monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    """The controller knows the new dir by then, and takes the replica for offline, until it is told."""
    seen: list[tuple[bool, bool]] = []
    swap_held = MoveSwap._swap_held

    async def failing(self: MoveSwap, move: Move, partition: Partition) -> bool:
        def is_in_sync() -> bool:
            state = partition.state
            return partition.broker_id in state.isr and (copies > 1 or state.leader_id == partition.broker_id)

        if not seen and move.side.log_dir.endswith("data-1"):  # the metadata log is in the other one
            seen.append((False, False))
            self._parts.failures.directory_failed(move.side.log_dir, OSError(errno.EIO, "broken"))
            await asyncio.sleep(0.4)  # the heartbeat is before the report
            is_out = not is_in_sync()
            asyncio.get_running_loop().call_later(1.5, lambda: seen.append((is_out, is_in_sync())))
        return await swap_held(self, move, partition)

    monkeypatch.setattr(MoveSwap, "_swap_held", failing)
    (_, plan) = directed(
        operators=(OperatorPlan(Task.RELOCATE, "topic-0", 0.2),), log_dirs=2, copies=copies, seconds=8.0, tellings=2
    )
    outcome = World(plan).run()
    assert not outcome.failures and seen[1:] == [(True, True)]
