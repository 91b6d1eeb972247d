"""A voter that is left, as its metadata log dir describes it, for the commands that help a quorum without a majority.

Its node may run: without a leader it writes nothing to its metadata log. Reads that dir and copies the log, and changes
nothing in it. Not here: the steps of a lost voter (recover_quorum.py, stand_in.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from broker.config.node_config import NodeConfig
from broker.quorum.first_voters import read_first_voters
from broker.quorum.metadata_log import METADATA_PARTITION, QuorumStateFile
from broker.quorum.metadata_reader import read_metadata
from metadata.image import MetadataImage
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from raft.voters import NO_VOTERS, VoterSet
from storage.disk.file_names import partition_directory
from storage.disk.file_system import FileSystem, remove_tree
from storage.log_dirs.meta_properties import MetaProperties, read_meta_properties

EPOCH_LEAP = 100
"""The lost voters may have seen elections of which the others have not heard. Producer ids belong to their epoch, so a
quorum that has forgotten some must not go on in an epoch in which it gave them."""
COPY_BYTES = 1024 * 1024
METADATA_DIRECTORY = partition_directory(METADATA_PARTITION)


@dataclass(frozen=True, slots=True)
class Survivor:
    """A voter that is left, as its metadata log dir describes it."""

    directory: str
    cluster_id: str
    node_id: int
    epoch: int
    registered_log_dirs: tuple[str, ...]
    """The ids of the log dirs with which the lost node is registered."""
    directory_id: str = ""
    """The id of the dir, by which a dynamic quorum knows the voter."""
    voters: VoterSet = NO_VOTERS
    """The voters of a dynamic quorum, as the log names them."""
    hosted: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The topic id of each replica that the lost node had in its metadata log dir, or whose log dir is not known."""


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """One change; `is_done` if an earlier run has made it."""

    what: str
    is_done: bool
    do: Callable[[], None]


def read_survivor(fs: FileSystem, directory: str, lost_node: int) -> Survivor:
    """Reads a metadata log dir, or a copy of one; its node may run. ConfigError where something is missing."""
    directory = directory.rstrip("/")
    inside = f"{directory}/{METADATA_DIRECTORY}"
    properties = read_meta_properties(fs, directory) if fs.exists(directory) else None
    if properties is None or not fs.exists(inside):
        raise ConfigError(
            f"--from {directory}: must be the metadata log dir of a controller that is left, or a copy of it, with"
            f" meta.properties and {METADATA_DIRECTORY} in it"
        )
    state = QuorumStateFile(inside, fs).load()
    if state is None:
        raise ConfigError(f"--from {directory}: it has no quorum-state, so it is not a controller's")
    image = read_metadata(fs, inside)
    registration = image.brokers.get(lost_node)
    voters = image.voters or read_first_voters(fs, directory) or NO_VOTERS
    lost = voters.find(lost_node)
    return Survivor(
        directory,
        properties.cluster_id,
        properties.node_id,
        state.epoch,
        registration.log_dirs if registration is not None else (),
        properties.directory_id,
        voters,
        _hosted(image, lost_node, lost.directory_id or "") if lost is not None else {},
    )


def _hosted(image: MetadataImage, node_id: int, log_dir: str) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.name, number): topic.topic_id
        for topic in image.topics_by_id.values()
        for number, partition in topic.partitions.items()
        if node_id in partition.replicas and partition.directory_of(node_id) in ("", log_dir)
    }


def formatted_of(config: NodeConfig, survivor: Survivor, fs: FileSystem) -> dict[str, MetaProperties | None]:
    """The log dirs, with what an earlier run has formatted; MetaPropertiesError for dirs of another cluster or node."""
    found = {path: read_meta_properties(fs, path) if fs.exists(path) else None for path in config.log_dirs}
    for path, properties in found.items():
        if properties is not None and (properties.cluster_id, properties.node_id) != (
            survivor.cluster_id,
            config.node_id,
        ):
            raise MetaPropertiesError(
                f"{path} belongs to node {properties.node_id} of cluster {properties.cluster_id}; give new log dirs, or"
                f" the configuration of that node"
            )
    return found


def votes_without_memory(first: VoterSet, lost: tuple[int, ...]) -> tuple[int, ...]:
    """The lost voters that make up a majority with those that are left."""
    left = len(first) - len(lost)
    return lost[: max(0, first.majority - left)]


def copy_tree(fs: FileSystem, source: str, target: str) -> None:
    """Copies a directory of files durably, whole or not at all. The node that owns it may run, and remove old files."""
    part = f"{target}.part"
    if fs.exists(part):
        remove_tree(fs, part)
    fs.mkdir(part)
    for name in fs.listdir(source):
        if fs.is_directory(f"{source}/{name}"):
            continue
        try:
            chunks = _chunks(fs, f"{source}/{name}")
            first = next(chunks, b"")
        except FileNotFoundError:
            continue
        _write(fs, f"{part}/{name}", first, chunks)
    fs.fsync_dir(part)
    fs.rename(part, target)
    fs.fsync_dir(os.path.dirname(target))


def _chunks(fs: FileSystem, path: str) -> Iterator[bytes]:
    fd = fs.open(path)
    try:
        at = 0
        while chunk := fs.pread(fd, COPY_BYTES, at):
            yield chunk
            at += len(chunk)
    finally:
        fs.close(fd)


def _write(fs: FileSystem, path: str, first: bytes, rest: Iterator[bytes]) -> None:
    fd = fs.open(path, create=True)
    try:
        at = 0
        for chunk in (first, *rest):
            at += fs.pwritev(fd, [chunk], at)
        fs.fdatasync(fd)
    finally:
        fs.close(fd)
