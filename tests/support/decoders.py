"""Every decoder of bytes that come from a disk, with good inputs to damage; those of gRPC are in wire_decoders.py.

A decoder is a name, a maker of good inputs, and a function that takes bytes and returns something, whatever, or raises
a typed error. `mend` makes damaged bytes pass the checksum in front of what is to be tested.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from crc32c import crc32c

from broker.quorum.metadata_log import QuorumStateFile
from metadata import records as metadata_records
from metadata.codec import decode_record, encode_record
from penstock.errors import PenstockError
from penstock.record.arrow import to_arrow_columns
from penstock.record.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_AT,
    MIN_RECORD_BYTES,
    iter_headers,
    verify_crc,
)
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress, decompress
from penstock.record.reader import batch_body, read_columns, read_records
from penstock.record.row_scan import scan_rows
from penstock.record.varint import decode_varint, encode_varint
from penstock.types import EpochEntry
from storage.append.producer_state import ProducerEntry, TakenBatch
from storage.append.recompression import prepared
from storage.disk import checkpoint_file, partition_metadata
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import is_sealed, seal, seal_json, unseal_json
from storage.log_config import LogConfig
from storage.log_dirs import clean_shutdown, meta_properties
from storage.log_dirs.meta_properties import MetaProperties
from storage.recovery import producer_snapshot
from storage.segment.batch_scan import LogFile, scan_verified
from storage.segment.offset_index import OffsetIndex
from storage.segment.time_index import TimeIndex

UNPACKED_BYTES_MAX = 64 * 1024
"""The cap on decompression that the decoders are given here."""
ITEM_FLOOR_BYTES = 32
"""Size that a record, a line or an element of a message counts as at least."""
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Decoder:
    """One decoder and what to feed it."""

    name: str
    sample: Callable[[Random], bytes]
    decode: Callable[[bytes], object]
    mend: Callable[[bytes], bytes] | None = None
    size: Callable[[bytes], int] = len
    """The size that an input counts as, in bytes, when its memory is judged: see tests/fuzz_decoders.py."""


class OneFile:
    """A file system where every path is one and the same small file; as much of one as the readers ask for."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def exists(self, path: str) -> bool:
        return True

    def read_file(self, path: str) -> bytes:
        return self._content

    def pread(self, fd: int, size: int, at: int) -> bytes:
        return self._content[at : at + size]

    def unlink(self, path: str) -> None:
        """Does nothing: the file stays."""

    def fsync_dir(self, path: str) -> None:
        """Does nothing: there is no directory."""


def _disk(content: bytes) -> FileSystem:
    return cast(FileSystem, OneFile(content))


# -- record batches ----------------------------------------------------------------------------------------------------


def _batches(random: Random) -> bytes:
    found = b""
    for _ in range(random.choice((1, 1, 2, 3))):
        count = random.choice((1, 3, 20, 60))
        equal = random.random() < 0.5
        sizes = [40 if equal else random.randrange(200) for _ in range(count)]
        values = [None if random.random() < 0.1 else random.randbytes(size) for size in sizes]
        headers = [[("h", b"1"), ("null", None)] if random.random() < 0.3 else [] for _ in range(count)]
        found += build_batch(
            values,
            keys=[b"key-%03d" % n for n in range(count)] if random.random() < 0.5 else None,
            headers=None if equal else headers,
            timestamps_ms=[NOW_MS + random.randrange(99) for _ in range(count)] if random.random() < 0.5 else NOW_MS,
            codec=random.choice(tuple(Codec)),
            base_offset=random.randrange(1 << 20),
        )
    return found


def _mended_batch(data: bytes) -> bytes:
    """The bytes as one batch: its length is what is there, its checksum is right."""
    if len(data) < HEADER_BYTES:
        return data
    batch = bytearray(data)
    batch[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4] = (len(batch) - LENGTH_OVERHEAD_BYTES).to_bytes(4, "big")
    batch[MAGIC_AT] = 2
    batch[CRC_AT:ATTRIBUTES_AT] = crc32c(memoryview(batch)[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(batch)


def _headers(data: bytes) -> object:
    return [verify_crc(data, at, header) for at, header in iter_headers(data)]


def _scan(data: bytes) -> object:
    found: object = None
    for at, header in iter_headers(data):
        body, start, end = batch_body(data, at, header, UNPACKED_BYTES_MAX)
        found = scan_rows(body, start, end, header.record_count, header.last_offset_delta)
    return found


def _segment(data: bytes) -> object:
    return list(scan_verified(LogFile(_disk(data), 0, "segment", len(data), 0, 1 << 31), 0))


def _converted(data: bytes) -> object:
    return prepared(data, LogConfig(compression_type="lz4"), NOW_MS, UNPACKED_BYTES_MAX)


def _batches_size(data: bytes) -> int:
    """The bytes, compressed bodies at the cap, and records at their floor, as many as there can be."""
    size = len(data)
    with suppress(PenstockError):
        for _, header in iter_headers(data):
            is_plain = header.codec == Codec.NONE
            body_bytes = header.size_bytes - HEADER_BYTES if is_plain else UNPACKED_BYTES_MAX
            records_bytes = ITEM_FLOOR_BYTES * min(header.record_count, body_bytes // MIN_RECORD_BYTES)
            size += max(0 if is_plain else UNPACKED_BYTES_MAX, records_bytes)
    return size


def _batch_decoder(
    name: str, decode: Callable[[bytes], object], size: Callable[[bytes], int] = _batches_size
) -> Decoder:
    return Decoder(name, _batches, decode, _mended_batch, size)


_CAP: dict[str, Any] = {"max_decompressed_bytes": UNPACKED_BYTES_MAX}
_RECORDS = (
    _batch_decoder("batch headers", _headers, len),
    _batch_decoder("reader: columns", lambda data: read_columns(data, **_CAP)),
    _batch_decoder("reader: columns, unchecked", lambda data: read_columns(data, check_crc=False, **_CAP)),
    _batch_decoder("reader: records", lambda data: read_records(data, **_CAP)),
    _batch_decoder("reader: arrow", lambda data: to_arrow_columns(data, include_headers=True, **_CAP)),
    _batch_decoder("reader: arrow, unchecked", lambda data: to_arrow_columns(data, check_crc=False, **_CAP)),
    _batch_decoder("row scan", _scan),
    _batch_decoder("segment scan", _segment, len),
    _batch_decoder("recompression", _converted),
    Decoder("varint", lambda random: encode_varint(random.randrange(1 << 63)), lambda data: decode_varint(data, 0)),
)


# -- codecs ------------------------------------------------------------------------------------------------------------


def _text(random: Random) -> bytes:
    words = [random.randbytes(4).hex().encode() for _ in range(20)]
    return b" ".join(random.choices(words, k=random.choice((1, 40, 400))))


def _codec_decoder(codec: Codec) -> Decoder:
    return Decoder(
        f"codec {codec.name.lower()}",
        lambda random: compress(codec, _text(random)),
        lambda data: decompress(codec, data, UNPACKED_BYTES_MAX),
        size=lambda data: max(len(data), UNPACKED_BYTES_MAX),
    )


_CODECS = tuple(_codec_decoder(codec) for codec in Codec if codec != Codec.NONE)


# -- files -------------------------------------------------------------------------------------------------------------


def _offset_index(random: Random) -> bytes:
    index = OffsetIndex()
    for number in range(random.choice((0, 1, 200))):
        index.append(10 * number + random.randrange(10), 5_000 * number)
    return index.to_bytes()


def _time_index(random: Random) -> bytes:
    index = TimeIndex()
    for number in range(random.choice((0, 1, 200))):
        index.maybe_append(NOW_MS + 100 * number + random.randrange(100), 10 * number)
    return index.to_bytes()


def _offsets(random: Random) -> bytes:
    lines = [f"topic-{n} {random.randrange(9)} {random.randrange(1 << 40)}" for n in range(random.choice((0, 1, 90)))]
    return _checkpoint(random, lines)


def _producers(random: Random) -> bytes:
    batches = tuple(TakenBatch(random.randrange(2**31), at * 9, 3, -1) for at in range(random.randint(1, 5)))
    producers = {random.randrange(2**63): ProducerEntry(2, batches, NOW_MS) for _ in range(random.randrange(8))}
    return producer_snapshot.snapshot_content(producer_snapshot.ProducerSnapshot(900, 4, producers))


def _epochs(random: Random) -> bytes:
    entries = [EpochEntry(3 * n, 1_000 * n + random.randrange(99)) for n in range(random.choice((0, 1, 40)))]
    return _checkpoint(random, [f"{entry.epoch} {entry.start_offset}" for entry in entries])


def _offsets_with_ids(random: Random) -> bytes:
    lines = [f"topic-{n} {n} {random.randrange(1 << 40)} {random.choice(('T' * 22, '-'))}" for n in range(3)]
    return seal("".join(f"{line}\n" for line in (2, len(lines), *lines)))


def _checkpoint(random: Random, lines: list[str]) -> bytes:
    version = random.randrange(2)
    text = "".join(f"{line}\n" for line in (version, len(lines), *lines))
    return seal(text) if version else text.encode()


def _numbers(data: bytes) -> int:
    """The size that a snapshot counts as: a number between two colons is a value of its own."""
    return max(_lines(data), ITEM_FLOOR_BYTES * data.count(b":"))


def _lines(data: bytes) -> int:
    """A line at its floor. A text with one strange character is kept at four bytes for each, so it counts double."""
    return max(len(data), ITEM_FLOOR_BYTES * data.count(b"\n")) * (1 if data.isascii() else 2)


def _resealed(data: bytes) -> bytes:
    """The last line, if it is a seal, becomes a true one."""
    with suppress(UnicodeDecodeError):
        text = data.decode()
        if is_sealed(text):
            return seal(text[: text.rfind("\n", 0, -1) + 1])
    return data


def _resealed_json(data: bytes) -> bytes:
    head, comma, _ = data.rpartition(b', "crc32c"')
    return head + comma + f': "{crc32c(head):08x}"}}\n'.encode() if comma else data


_FILES = (
    Decoder("offset index", _offset_index, lambda data: OffsetIndex.parse(data, 1 << 20)),
    Decoder("time index", _time_index, TimeIndex.parse),
    Decoder("offset checkpoint", _offsets, lambda d: checkpoint_file.read_offsets(_disk(d), "p"), _resealed, _lines),
    Decoder(
        "offset checkpoint with topic ids",
        _offsets_with_ids,
        lambda data: checkpoint_file.read_offset_lines(_disk(data), "p"),
        _resealed,
        _lines,
    ),
    Decoder(
        "leader-epoch checkpoint", _epochs, lambda d: checkpoint_file.read_epochs(_disk(d), "p"), _resealed, _lines
    ),
    Decoder(
        "snapshot of producers",
        _producers,
        lambda data: producer_snapshot.read_snapshot(_disk(data), "d", 900),
        _resealed,
        _numbers,
    ),
    Decoder(
        "meta.properties",
        lambda random: meta_properties._content(MetaProperties("C" * 22, random.randrange(99), "D" * 22)),
        lambda data: meta_properties.read_meta_properties(_disk(data), "d"),
        _resealed,
        _lines,
    ),
    Decoder(
        "partition.metadata",
        lambda random: seal(f"version: 1\ntopic_id: {'T' * 22}\n"),
        lambda data: partition_metadata.read_topic_id(_disk(data), "d"),
        _resealed,
        _lines,
    ),
    Decoder(
        "clean shutdown marker",
        lambda random: seal_json({"version": 1, "brokerEpoch": random.randrange(1 << 40), "directoryIds": ["D" * 22]}),
        lambda data: clean_shutdown.take_marker(_disk(data), "d"),
        _resealed_json,
    ),
    Decoder(
        "sealed JSON",
        lambda random: seal_json({"a": random.random(), "b": [1, "x"]}),
        lambda d: unseal_json("p", d.decode("latin-1")),
        _resealed_json,
    ),
    Decoder(
        "quorum-state",
        lambda random: seal_json(
            {"leaderEpoch": random.randrange(99), "leaderId": 1, "votedId": -1, "data_version": 1}
        ),
        lambda data: QuorumStateFile("d", _disk(data)).load(),
        _resealed_json,
    ),
)


# -- metadata records --------------------------------------------------------------------------------------------------

_METADATA_RECORDS = (
    metadata_records.RegisterBrokerRecord(1, "I" * 22, 5, "127.0.0.1", 9192, "rack", True, False, ("D" * 22,)),
    metadata_records.TopicRecord("orders", "T" * 22),
    metadata_records.PartitionRecord("T" * 22, 3, (1, 2, 3), (1, 2), 1, 7, 9),
    metadata_records.PartitionChangeRecord("T" * 22, 3, (1,), 1),
    metadata_records.ConfigRecord("topic", "orders", "retention.ms", "1000"),
    metadata_records.ProducerIdsRecord(3_000, 1, 42),
    metadata_records.ClientQuotaRecord("producer_byte_rate", "anna", "", value=1.5),
    metadata_records.AccessControlEntryRecord("I" * 22, "TOPIC", "orders", "LITERAL", "User:a", "*", "READ", "ALLOW"),
    metadata_records.UserScramCredentialRecord("alice", 1, 4096, "c2FsdA==", "c3RvcmVk", "c2VydmVy"),
)
_METADATA = (Decoder("metadata record", lambda random: encode_record(random.choice(_METADATA_RECORDS)), decode_record),)


DECODERS = (*_RECORDS, *_CODECS, *_FILES, *_METADATA)
