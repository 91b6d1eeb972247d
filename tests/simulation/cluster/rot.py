"""A bit of one replica that changes on the disk while its node is down, in a batch below its checkpointed recovery
point.

Above that, a start takes rot for a torn tail and cuts it. Then no promise covers an election of the replica before it
has fetched what was cut (docs/data-directory.md).

The node must never hand that batch out. It may find it at its start, or when somebody reads it; then the replica is set
aside, and fetched anew from the others. If nobody has read the batch when the fault ends, it is whole again: that disk
could correct it. A disk rots only while the cluster is whole, and no other disk is lost meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.record.batch import HEADER_BYTES
from storage.disk.checkpoint_file import read_offsets
from storage.disk.file_names import LOG_SUFFIX, RECOVERY_POINT_CHECKPOINT
from tests.simulation.cluster.durable_log import parse
from tests.simulation.cluster.plan import TopicKind

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.plan import Fault
    from tests.simulation.cluster.world import World

Ends = Callable[[], object]


class _Place(NamedTuple):
    """A batch in a file."""

    path: str
    begin: int
    end: int


def rot(world: World, fault: Fault, machine: Machine) -> Ends:
    """Kills the node, changes a bit, and starts it again."""
    if why := world.disks.not_covered(machine, ()):
        return world.disks.leave_out(fault, why)
    places = list(_places(world, machine))
    if not places:
        why = "no batch of a partition that keeps everything is committed, and below a checkpointed recovery point"
        return world.disks.leave_out(fault, why)
    choice = int(fault.amount * 1_000_000)
    path, begin, end = places[choice % len(places)]
    file, at = machine.disk.file_at(path), begin + HEADER_BYTES + choice % (end - begin - HEADER_BYTES)
    partitions, node_id = world.invariants.partitions, machine.config.node_id
    partitions.excuse(node_id)
    machine.kill()
    file.flips[at] = 1 << choice % 8
    world.say(f"{machine.name}: {path}: a bit has changed in the batch at {begin}")
    machine.start()

    def mend() -> None:
        if machine.node is not None and machine.disk.exists(path) and machine.disk.file_at(path) is file and file.flips:
            partitions.excuse_no_more(node_id)  # the start has neither cut it nor set it aside
        file.flips.clear()
        if machine.has_offline_logs:
            machine.kill()
            machine.start()

    return world.disks.began(machine, mend)


def _places(world: World, machine: Machine) -> Iterator[_Place]:
    """The places of the batches of its replicas that are committed, and known to be flushed when the node starts
    again."""
    node = machine.node
    kept = {topic.name for topic in world.plan.topics if topic.kind is TopicKind.PLAIN}
    for partition in (
        node.broker.replication.replicas.hosted.all() if node is not None and node.broker is not None else ()
    ):
        if partition.offline is not None or partition.topic_partition.topic not in kept or len(partition.state.isr) < 2:
            continue
        directory = partition.log.directory
        points = read_offsets(machine.disk, f"{partition.log.log_dir}/{RECOVERY_POINT_CHECKPOINT}") or {}
        flushed = points.get(partition.topic_partition, 0)
        names = (name for name in machine.disk.listdir(directory) if name.endswith(LOG_SUFFIX))
        for path in sorted(f"{directory}/{name}" for name in names):
            begin = 0
            for batch in parse(machine.disk.file_at(path).durable, 0, None)[0]:
                end = begin + len(batch.raw)
                if batch.next_offset <= min(partition.high_watermark, flushed):
                    yield _Place(path, begin, end)
                begin = end
