"""Compares the replicas of a partition in a simulated cluster, as they are on the disks of its brokers.

They must be equal byte for byte. Where the oldest segments are deleted, each broker does so in its own time: then from
the newest beginning on. Where keys are compacted, by the last value of each key, or by all records that are committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.record.batch import iter_headers
from penstock.record.markers import read_marker
from penstock.record.reader import read_columns, read_records
from penstock.types import TopicPartition
from storage.log_dirs.meta_properties import read_meta_properties
from tests.simulation.cluster.plan import TopicKind, TopicPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine


AWAY = b"away"
"""Stands for a replica whose directory is not there now; unlike all others."""


def unequal(brokers: Sequence[Machine], topics: Sequence[TopicPlan], counts: Mapping[str, int]) -> list[str]:
    """Partitions whose replicas differ now; `counts` says how many each topic has."""
    return [
        f"{topic.name}-{partition}"
        for topic in topics
        for partition in range(counts[topic.name])
        if not are_equal(
            list(_replicas(brokers, TopicPartition(topic.name, partition))), topic.kind, is_compacted=topic.is_compacted
        )
    ]


def misplaced(brokers: Sequence[Machine]) -> list[str]:
    """Replicas whose log is not in the log dir that the metadata names, by the ids on the disks."""
    found = []
    for machine in brokers:
        node = machine.node
        image = node.loader.image if node is not None else EMPTY_IMAGE
        for log in node.log_manager.logs() if node is not None else ():
            topic = image.topics_by_id.get(log.topic_id)
            state = topic.partitions.get(log.topic_partition.partition) if topic is not None else None
            properties = read_meta_properties(machine.disk, log.log_dir)
            if state is None or properties is None:
                continue
            recorded = state.directory_of(machine.config.node_id)
            if recorded != properties.directory_id:
                found.append(f"{log.directory} of {machine.name} is in {properties.directory_id}, not in {recorded!r}")
    return found


def apart(image: MetadataImage) -> int:
    """By how many replicas two brokers differ at most, once what moves has moved."""
    counts = Counter(dict.fromkeys(image.brokers, 0))
    for topic in image.topics_by_id.values():
        counts.update(replica for partition in topic.partitions.values() for replica in partition.target_replicas)
    return max(counts.values()) - min(counts.values())


def are_equal(replicas: Sequence[Replica], kind: TopicKind, *, is_compacted: bool = False) -> bool:
    contents = [replica.content for replica in replicas]
    if kind is TopicKind.COMPACTED:
        tables = [last_values(content) for content in contents]
        return all(table == tables[0] for table in tables)
    if kind in (TopicKind.TRIMMED, TopicKind.RETAINED, TopicKind.TRANSACTED):
        begin = max((replica.begin for replica in replicas), default=0)
        contents = [from_offset(content, begin) for content in contents]
    if kind is TopicKind.TRANSACTED and is_compacted:
        return len({tuple(committed_records(content)) for content in contents}) <= 1
    return len(set(contents)) <= 1


class Replica(NamedTuple):
    """The batches on one broker's disk, and where they begin: at the log end if there are none."""

    content: bytes
    begin: int


def _replicas(brokers: Sequence[Machine], tp: TopicPartition) -> Iterator[Replica]:
    for machine in brokers:
        assert machine.node is not None
        log = next((log for log in machine.node.log_manager.logs() if log.topic_partition == tp), None)
        if log is not None:
            try:
                content = log_bytes(machine, log.directory)
            except FileNotFoundError:  # it is being replaced by a copy in another log dir
                content = AWAY
            yield Replica(content, first_offset(content, log.log_end_offset))


def log_bytes(machine: Machine, directory: str) -> bytes:
    """Everything in one replica, up to its log end, as it is on the disk."""
    names = sorted(path for path in machine.disk.files(directory) if path.endswith(".log"))
    content = b"".join(bytes(machine.disk.file_at(path).data) for path in names)
    end = 0
    for position, header in iter_headers(content):
        end = position + header.size_bytes
    return content[:end]


def first_offset(replica: bytes, of_none: int) -> int:
    return next((header.base_offset for _, header in iter_headers(replica)), of_none)


def from_offset(replica: bytes, begin: int) -> bytes:
    """The batches that end at `begin` or behind it."""
    return next((replica[at:] for at, header in iter_headers(replica) if header.last_offset >= begin), b"")


def last_values(replica: bytes) -> dict[bytes | None, bytes | None]:
    """The last value of each key that is not deleted."""
    found = {record.key: record.value for record in read_records(replica)}
    return {key: value for key, value in found.items() if value is not None}


def committed_records(replica: bytes) -> list[tuple[int, bytes | None]]:
    """Offsets and values; without those of aborted transactions, which the cleaner takes away sooner or later."""
    found: list[tuple[int, bytes | None]] = []
    waiting: dict[int, list[tuple[int, bytes | None]]] = {}
    for at, header in iter_headers(replica):
        if header.is_control:
            marker, records = read_marker(replica, at), waiting.pop(header.producer_id, [])
            found += records if marker is None or marker.is_committed else []
            continue
        columns = read_columns(replica[at : at + header.size_bytes])
        place = waiting.setdefault(header.producer_id, []) if header.is_transactional else found
        place += zip(columns.offsets, columns.values, strict=True)
    return sorted(found)
