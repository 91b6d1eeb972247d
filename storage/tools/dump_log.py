"""The rows of `penstock log dump`: batches, records and index entries as they are on the disk.

A row is a dict of JSON values, with `type` first. The rows of a log come in order, one at a time, so a log of any size
can be dumped. Bytes are text if they are UTF-8 and base64 otherwise (`key_base64`); if they are cut, `key_bytes` is
their full number. Damage is a row of type `problem`; readable rows behind it follow. `verify_log.py` checks whether the
content is right.
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Iterator

from penstock.lazy_dataclass import dataclass
from penstock.record.batch import CODEC_MASK, BatchHeader
from penstock.record.codecs import Codec
from penstock.record.decoding import DECODING_ERRORS
from penstock.record.markers import Marker
from penstock.record.reader import RecordColumns
from storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_segment_file,
)
from storage.disk.file_system import FileSystem
from storage.segment import offset_index, time_index, transaction_index
from storage.segment.batch_scan import MAX_OFFSETS, LogFile
from storage.segment.segment_files import first_with, log_names
from storage.tools.batch_walk import walk
from storage.tools.decode import marker_at, read_batch

Row = dict[str, object]

NO_INDEX = "has no index files: they are written when the segment is rolled, or the node stopped"
_CODECS = {int(codec): codec.name.lower() for codec in Codec}


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The rows of a log to dump."""

    what: str = "batches"
    """`batches`, `records`, `index`, `epochs`, `producers` or `checkpoints`."""
    from_offset: int = 0
    max_bytes: int | None = None
    """How much of each key, value and header is shown; None: all."""


def segment_paths(fs: FileSystem, directory: str, from_offset: int) -> list[str]:
    """The .log files that may hold the offset or come after it, oldest first."""
    found = log_names(fs.listdir(directory))
    first = first_with([base for base, _ in found], from_offset + 1)
    return [f"{directory}/{name}" for _, name in found[first:]]


def plain_name(path: str) -> str:
    """The name without a suffix of an unfinished or deleted file."""
    name = os.path.basename(path)
    for suffix in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        name = name.removesuffix(suffix)
    return name


def dump_segment(fs: FileSystem, path: str, options: DumpOptions) -> Iterator[Row]:
    """Batches or records of one .log file (or one that bears its name with a suffix)."""
    parsed = parse_segment_file(plain_name(path))
    base = parsed[0] if parsed is not None else 0
    fd = fs.open(path)
    try:
        file = LogFile(fs, fd, path, fs.size(path), base, base + MAX_OFFSETS)
        for position, header, problem, _ in walk(file, lambda count: None):
            if header is None:
                yield {"type": "problem", "file": path, "position": position, "problem": problem}
            elif header.next_offset > options.from_offset:
                if options.what == "records" and not problem:
                    yield from _records(file, position, header, options)
                else:
                    marker = None if problem else marker_at(file, position, header)
                    yield _batch(path, position, header, problem) | _marker_fields(marker)
    finally:
        fs.close(fd)


def _batch(path: str, position: int, header: BatchHeader, problem: str) -> Row:
    row: Row = {
        "type": "batch",
        "file": path,
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.leader_epoch,
        "records": header.record_count,
        "bytes": header.size_bytes,
        "codec": _CODECS.get(header.attributes & CODEC_MASK, f"unknown ({header.attributes & CODEC_MASK})"),
        "base_timestamp_ms": header.base_timestamp_ms,
        "max_timestamp_ms": header.max_timestamp_ms,
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "kind": _kind(header),
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "attributes": header.attributes,
        "crc": f"{header.crc:08x}",
    }
    return {**row, "type": "problem", "problem": problem} if problem else row


def _kind(header: BatchHeader) -> str:
    if header.is_control:
        return "control"
    return "transactional" if header.is_transactional else "data"


def _marker_fields(marker: Marker | None) -> Row:
    """The fields of a marker, instead of those of another control batch."""
    if marker is None:
        return {}
    return {"kind": "commit" if marker.is_committed else "abort", "coordinator_epoch": marker.coordinator_epoch}


def _records(file: LogFile, position: int, header: BatchHeader, options: DumpOptions) -> Iterator[Row]:
    try:
        columns = read_batch(file, position, header)
    except DECODING_ERRORS as error:
        yield {"type": "problem", "file": file.path, "position": position, "problem": str(error)}
        return
    marker = marker_at(file, position, header)
    for at, offset in enumerate(columns.offsets):
        if offset >= options.from_offset:
            row: Row = {"type": "record", "file": file.path, "position": position, "offset": offset}
            if header.is_control:
                row |= {"is_control": True, **_marker_fields(marker)}
            yield row | _record(columns, at, options.max_bytes)


def _record(columns: RecordColumns, at: int, max_bytes: int | None) -> Row:
    row: Row = {"timestamp_ms": columns.timestamps_ms[at]}
    row |= cut_bytes_fields("key", columns.keys[at] if columns.keys is not None else None, max_bytes)
    row |= cut_bytes_fields("value", columns.values[at], max_bytes)
    headers = columns.headers[at] if columns.headers is not None else ()
    if headers:
        row["headers"] = [{"name": name, **cut_bytes_fields("value", value, max_bytes)} for name, value in headers]
    return row


def cut_bytes_fields(name: str, data: bytes | None, max_bytes: int | None) -> Row:
    """Bytes as JSON can hold them."""
    if data is None:
        return {name: None}
    cut = data if max_bytes is None else data[:max_bytes]
    try:
        data.decode()
        row: Row = {name: cut.decode(errors="ignore")}  # a cut may go through a character
    except UnicodeDecodeError:
        row = {f"{name}_base64": base64.b64encode(cut).decode("ascii")}
    if len(cut) < len(data):
        row[f"{name}_bytes"] = len(data)
    return row


def dump_index(fs: FileSystem, path: str) -> Iterator[Row]:
    """The entries of an .index or .timeindex file, as they are."""
    parsed = parse_segment_file(plain_name(path))
    base = parsed[0] if parsed is not None else 0
    is_time = plain_name(path).endswith(TIME_INDEX_SUFFIX)
    entry = time_index.ENTRY if is_time else offset_index.ENTRY
    content = fs.read_file(path)
    for at, (first, second) in enumerate(_entries(entry, content)):
        row: Row = {"type": "timeindex" if is_time else "index", "file": path, "position": at * entry.size}
        if is_time:
            yield row | {"timestamp_ms": first, "offset": base + second}
        else:
            yield row | {"offset": base + first, "log_position": second}
    left = len(content) % entry.size
    if left:
        what = f"{left} bytes that are no whole entry"
        yield {"type": "problem", "file": path, "position": len(content) - left, "problem": what}


def _entries(entry: struct.Struct, content: bytes) -> Iterator[tuple[int, int]]:
    return ((first, second) for first, second in entry.iter_unpack(content[: len(content) // entry.size * entry.size]))


def dump_aborted(fs: FileSystem, path: str) -> Iterator[Row]:
    """The entries of a .txnindex file, as they are."""
    content = fs.read_file(path)
    for at, entry in enumerate(transaction_index.iter_entries(content)):
        row: Row = {"type": "txnindex", "file": path, "position": at * transaction_index.ENTRY_BYTES}
        if entry.version != transaction_index.VERSION:
            yield row | {"type": "problem", "problem": f"version {entry.version}, not {transaction_index.VERSION}"}
        yield row | {**entry.aborted._asdict(), "last_stable_offset": entry.last_stable_offset}
    left = len(content) % transaction_index.ENTRY_BYTES
    if left:
        what = f"{left} bytes that are no whole entry"
        yield {"type": "problem", "file": path, "position": len(content) - left, "problem": what}


def dump_indexes(fs: FileSystem, log_path: str) -> Iterator[Row]:
    """The indexes of one .log file; a row of type `note` where it has none by offset and time yet."""
    stem = log_path.removesuffix(LOG_SUFFIX)
    paths = [stem + suffix for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) if fs.exists(stem + suffix)]
    if not paths:
        yield {"type": "note", "file": log_path, "note": NO_INDEX}
    for path in paths:
        yield from dump_index(fs, path)
    if fs.exists(stem + TXN_INDEX_SUFFIX):
        yield from dump_aborted(fs, stem + TXN_INDEX_SUFFIX)
