"""Reads the metadata at an offset from the directory of a metadata log, of a stopped or running node; changes nothing.

The newest sound snapshot below the offset, and what the log has behind it. The end of a log may hold records that were
never committed: no file says so. An image stands at the end of each batch, as on the nodes: a batch is one decision.

A running node removes old snapshots and the beginning of its log at any moment. Reading begins anew if a file is gone,
or if something is missing and other files are there than before. What is read up to an offset that is committed does
not depend on what the node does meanwhile.

Not here: what a node makes of its own directory at a start (`metadata_log_start.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from metadata.codec import decode_record
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.snapshot import decode_snapshot
from penstock.errors import ConfigError, CorruptFileError, CorruptMessageError
from penstock.record.batch import BatchHeader, iter_headers, verify_crc
from penstock.record.reader import read_columns
from storage.disk.file_names import LOG_SUFFIX, parse_metadata_snapshot, parse_segment_file
from storage.disk.file_system import FileSystem

ATTEMPTS_MAX = 5


class InsideDecisionError(ConfigError):
    """The offset is not the last one of a batch."""


def read_metadata(fs: FileSystem, directory: str, at_offset: int | None = None) -> MetadataImage:
    """The image that has everything up to this offset, or to the log's end. OSError; CorruptFileError where records are
    damaged or missing; ConfigError for an offset that is not there, or inside a batch."""
    for _ in range(ATTEMPTS_MAX - 1):
        names = fs.listdir(directory)
        try:
            return _read(fs, directory, at_offset)
        except InsideDecisionError:
            raise
        except FileNotFoundError:
            pass
        except (ConfigError, CorruptFileError):
            if fs.listdir(directory) == names:
                raise
    return _read(fs, directory, at_offset)


def _read(fs: FileSystem, directory: str, at_offset: int | None) -> MetadataImage:
    image = _newest_snapshot(fs, directory, at_offset)
    if image.offset == at_offset:
        return image
    for header, batch in _batches(fs, directory, image.offset + 1):
        if at_offset is not None and header.last_offset > at_offset:
            around = f"the metadata stands at {image.offset} and at {header.last_offset}"
            raise InsideDecisionError(f"{directory}: offset {at_offset} is inside one decision; {around}")
        delta = MetadataDelta(image)
        for value in read_columns(batch).values:
            if value is not None:
                delta.replay(decode_record(bytes(value)))
        image = delta.apply(header.last_offset, header.leader_epoch)
        if image.offset == at_offset:
            return image
    if at_offset is not None:
        raise ConfigError(f"{directory}: there is nothing at offset {at_offset}; the last one is {image.offset}")
    return image


def _newest_snapshot(fs: FileSystem, directory: str, at_offset: int | None) -> MetadataImage:
    found = {snapshot_id: name for name in fs.listdir(directory) if (snapshot_id := parse_metadata_snapshot(name))}
    for snapshot_id in sorted(found, key=lambda one: one.end_offset, reverse=True):
        if at_offset is None or snapshot_id.end_offset - 1 <= at_offset:
            try:
                return decode_snapshot(fs.read_file(f"{directory}/{found[snapshot_id]}"), snapshot_id)
            except CorruptMessageError:
                continue  # as a start does; `penstock log verify` tells of it
    return EMPTY_IMAGE


def _batches(fs: FileSystem, directory: str, from_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of the log from the one that begins there on; the last may be cut off."""
    found = sorted(
        parsed[0] for name in fs.listdir(directory) if (parsed := parse_segment_file(name)) and parsed[1] == LOG_SUFFIX
    )
    if found and found[0] > from_offset:
        raise ConfigError(f"{directory}: what the log had below offset {found[0]} is in a snapshot that ends later")
    first = max((place for place, base in enumerate(found) if base <= from_offset), default=0)
    expected = None
    for base_offset in found[first:]:
        path = f"{directory}/{base_offset:020d}{LOG_SUFFIX}"
        data = fs.read_file(path)
        at = 0
        try:
            for at, header in iter_headers(data):
                if not verify_crc(data, at, header):
                    raise CorruptMessageError("wrong checksum")
                if header.next_offset <= from_offset:
                    continue
                if header.base_offset != (from_offset if expected is None else expected):
                    why = f"the records from offset {from_offset if expected is None else expected} on are missing"
                    raise CorruptFileError(path, at, why)
                expected = header.next_offset
                yield header, data[at : at + header.size_bytes]
        except CorruptMessageError as damage:
            if base_offset != found[-1]:
                raise CorruptFileError(path, at, str(damage)) from damage
            return
