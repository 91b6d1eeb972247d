"""meta.properties: which cluster and node a log dir belongs to, so that no node ever writes into another's.

    version=1
    cluster.id=ZHvSRhLiTqGYt7CWsTqnaA
    node.id=1
    directory.id=7PC9ms0-Q_u3kKqQvVvr8A       its own, random: a copied dir is recognised (KIP-858)
    crc32c 0a1b2c3d                           checksum of the lines before (sealed_text.py); delete it when you edit

Written by `penstock node format`, and once more when the dir's version rises: a release that does not know the new one
does not start, BEFORE it opens anything in the dir. A dir that is not empty is never formatted. Every refusal
is a `MetaPropertiesError` that says what is wrong and what to do. Not here: the lock (`log_directory.py`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from penstock.errors import CorruptFileError, MetaPropertiesError
from penstock.lazy_dataclass import dataclass
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.file_names import BOOTSTRAP_LEVELS, BOOTSTRAP_USERS, FIRST_VOTERS, LOCK, META_PROPERTIES, TMP_SUFFIX
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import SEAL, is_sealed, seal, unseal

VERSION = 1
"""The version that a new dir gets."""
METADATA_SNAPSHOTS = 2
"""The version of a dir whose metadata log may begin with a snapshot. A release without snapshots would take the log's
first batch for one with a changed leader epoch, and cut it."""
DYNAMIC_VOTERS = 3
"""The version of a dir whose metadata log may name the voters of the quorum. A release without such records would go by
the voters of its configuration, and two sets of voters could elect two leaders."""
VERSION_MAX = DYNAMIC_VOTERS
_BEGINNING = (FIRST_VOTERS, BOOTSTRAP_USERS, BOOTSTRAP_LEVELS)
_IGNORED = {LOCK, "lost+found", *_BEGINNING, *(name + TMP_SUFFIX for name in (META_PROPERTIES, *_BEGINNING))}
"""May stand in a dir that counts as empty; all but the first two are left by a format that was interrupted."""
_DISK_FAILED = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.EUCLEAN)
"""Reading the file failed below the file system: the dir is offline, and the node runs on the others."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The cluster and the node that a log dir belongs to."""

    cluster_id: str
    node_id: int
    directory_id: str
    version: int = VERSION


def format_directory(
    fs: FileSystem,
    path: str,
    cluster_id: str,
    node_id: int,
    directory_id: str,
    *,
    version: int = VERSION,
    prepare: Callable[[], None] = lambda: None,
    prepared: Collection[str] = (),
) -> MetaProperties:
    """Make an empty (or missing) directory this node's; refuses any other. `directory_id` is new.

    `prepare` writes the other files of a new dir, BEFORE the one that makes it a log dir: so no log dir lacks them.
    Those that are named `prepared` may be there already: an interrupted format has left them.
    """
    try:
        existing = read_meta_properties(fs, path) if fs.exists(path) else None
        if existing is not None:
            raise MetaPropertiesError(
                f"{path} is formatted already, for node {existing.node_id} of cluster {existing.cluster_id}; to use it "
                f"anew, empty it by hand"
            )
        make_directory(fs, path)
        require_empty(fs, path, prepared)
        prepare()
        properties = MetaProperties(cluster_id, node_id, directory_id, version)
        write_meta_properties(fs, path, properties)
    except OSError as error:
        raise MetaPropertiesError(f"{path} cannot be formatted: {error.strerror or error}") from error
    return properties


def raise_version(fs: FileSystem, path: str, version: int) -> None:
    """Durably, if it is lower; for good. MetaPropertiesError or OSError, and then nothing has changed."""
    try:
        properties = read_meta_properties(fs, path)
    except MetaPropertiesError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise
    if properties is None:
        raise MetaPropertiesError(f"{path} is not formatted any more: its meta.properties is gone")
    if properties.version < version:
        write_meta_properties(fs, path, replace(properties, version=version))


def write_meta_properties(fs: FileSystem, path: str, properties: MetaProperties) -> None:
    """The dir belongs to this node from then on; whoever calls it has seen to what else is there."""
    write_atomically(fs, f"{path}/{META_PROPERTIES}", _content(properties))


def require_empty(fs: FileSystem, path: str, prepared: Collection[str] = ()) -> None:
    """MetaPropertiesError if the directory exists and is not empty: then it must not be formatted. Files that are named
    `prepared` do not count."""
    if not fs.exists(path):
        return
    if not fs.is_directory(path):
        raise MetaPropertiesError(f"{path} is a file; a log dir is a directory")
    inside = sorted(set(fs.listdir(path)) - _IGNORED - set(prepared) - {name + TMP_SUFFIX for name in prepared})
    if inside:
        raise MetaPropertiesError(
            f"{path} is not empty (it holds {inside[0]}) and is not a log dir; nothing was changed: give an empty "
            "directory"
        )


def make_directory(fs: FileSystem, path: str) -> None:
    """The directory and its parents, each durable."""
    parent = os.path.dirname(path)
    if fs.exists(path):
        with contextlib.suppress(PermissionError):
            fs.fsync_dir(parent or ".")  # a format that was interrupted may have made it, and not its name durable
        return
    if parent and parent != path:
        make_directory(fs, parent)
    try:
        fs.mkdir(path)
        fs.fsync_dir(parent or ".")
    except OSError as error:
        raise MetaPropertiesError(f"{path} cannot be made: {error.strerror or error}") from error


def _content(properties: MetaProperties) -> bytes:
    return seal(
        f"version={properties.version}\ncluster.id={properties.cluster_id}\nnode.id={properties.node_id}\n"
        f"directory.id={properties.directory_id}\n"
    )


def read_meta_properties(fs: FileSystem, path: str) -> MetaProperties | None:
    """The content of the dir's meta.properties; None without the file."""
    file = f"{path}/{META_PROPERTIES}"
    try:
        text = read_text(fs, file)
    except (CorruptFileError, OSError) as error:
        raise MetaPropertiesError(f"{file} cannot be read: {error}") from error
    if text is None:
        return None
    return _parse(file, text)


def _parse(file: str, text: str) -> MetaProperties:
    pairs = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line and not line.startswith("#"))
    version = pairs.get("version", "")
    if _is_number(version) and int(version) > VERSION_MAX:
        knows = f"this release knows 1 to {VERSION_MAX}"
        raise MetaPropertiesError(f"{file} has version {version}, {knows}: use a newer release")
    missing = [key for key in ("version", "cluster.id", "node.id", "directory.id") if not pairs.get(key)]
    if missing:
        raise _damaged(file, f"{missing[0]} is missing")
    if not text.endswith("\n") or not _is_number(version) or not _is_number(pairs["node.id"]):
        raise _damaged(file, "a line is incomplete, or a version or node id is not a number")
    ids = pairs["cluster.id"], pairs["directory.id"]
    if not all(map(_ID.fullmatch, ids)):
        raise _damaged(file, "an id has characters that are not allowed in ids")
    if is_sealed(text):
        try:
            unseal(file, text)
        except CorruptFileError as error:
            raise _damaged(file, f"its checksum is wrong (if you edited the file, delete the line {SEAL})") from error
    return MetaProperties(ids[0], int(pairs["node.id"]), ids[1], int(version))


def _is_number(text: str) -> bool:
    """True if the text is a number of decimal digits, and no longer than a number that is ever written."""
    return len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()


def _damaged(file: str, what: str) -> MetaPropertiesError:
    return MetaPropertiesError(
        f"{file} is damaged: {what}; restore it from a backup, or write it as docs/data-directory.md says"
    )


def verify_log_dirs(
    fs: FileSystem, paths: Sequence[str], cluster_id: str | None, node_id: int
) -> tuple[dict[str, MetaProperties], dict[str, OSError]]:
    """The properties of each dir, after checking that all are this node's and belong together; and the failed dirs."""
    found: dict[str, MetaProperties] = {}
    failed: dict[str, OSError] = {}
    seen: dict[str, str] = {}
    for path in paths:
        try:
            properties = read_meta_properties(fs, path)
        except MetaPropertiesError as error:
            if not (isinstance(error.__cause__, OSError) and error.__cause__.errno in _DISK_FAILED):
                raise
            failed[path] = error.__cause__
            continue
        if properties is None:
            raise MetaPropertiesError(
                f"{path} is not formatted; format it with: penstock node format --config FILE. If it held data, do not"
                " format it: mount its disk, or restore its meta.properties. If the disk is lost, see `A log dir that"
                " is replaced, moved or gone` in docs/data-directory.md"
            )
        cluster_id = cluster_id or properties.cluster_id
        if properties.cluster_id != cluster_id:
            raise MetaPropertiesError(
                f"{path} belongs to cluster {properties.cluster_id}, this node's is {cluster_id}; correct log.dirs"
            )
        if properties.node_id != node_id:
            raise MetaPropertiesError(
                f"{path} belongs to node {properties.node_id}, but node.id = {node_id}; correct node.id or log.dirs"
            )
        if properties.directory_id in seen:
            raise MetaPropertiesError(
                f"{path} is a copy of {seen[properties.directory_id]}: both have directory.id"
                f" {properties.directory_id}; take one of them out of log.dirs"
            )
        seen[properties.directory_id] = path
        found[path] = properties
    return found, failed
