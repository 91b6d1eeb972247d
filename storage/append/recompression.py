"""Converts produced batches to the codec of their topic (`compression.type`). Pure.

A body is unpacked and packed again as bytes; no record is parsed. Length, codec bits and checksum are new; offsets,
times, producer fields and the other attributes stay. A batch that has the codec already is not changed, nor is a
control batch, as in Kafka. Callers verify the checksum BEFORE, because the new checksum would hide any damage.

The memory of a small compressed request is bounded. The compressed batches of one append may unpack to
`MAX_UNPACKED_BYTES` together, an unpacked body must have room for the announced records, and no batch is stored that
readers would not unpack. `max.message.bytes` holds for a batch as it came (batch_validation.py) and, as in Kafka, for
the stored one. The time of one conversion is bounded, too: zstd's slow levels are for bodies up to `SLOW_BYTES_MAX`.

Threads beside the loop use `is_due` and `prepared` (broker/apis/producing/produce_conversion.py). The log itself uses
`prepared` again, which then finds nothing to convert, unless the topic's configuration has changed in between.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.errors import ApiError, MessageTooLargeError, RecordListTooLargeError
from penstock.record.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, iter_headers, pack_batch, read_header
from penstock.record.codecs import Codec, compress, decompress
from storage.append.append_origin import PRODUCER, AppendOrigin
from storage.append.batch_validation import check_produced, check_size
from storage.append.header_check import MAX_UNPACKED_BYTES, check_unpacked
from storage.append.key_validation import takes_long
from storage.append.record_validation import ReadableRecords, readable_at_once, to_look_at
from storage.disk.file_system import Bytes
from storage.log_config import LogConfig

SLOW_LEVEL: Final = 12
"""zstd takes 0.1 s for a MiB at this level, and 1.5 s at those above."""
SLOW_BYTES_MAX: Final = 1 << 20
"""The largest body that is packed at a level above SLOW_LEVEL: a second of a thread, and some 20 MiB. The largest one
of all would take minutes, and ten times the memory."""

Batches = list[tuple[int, BatchHeader]]

_TARGETS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Converted(NamedTuple):
    """Batches in their topic's codec, and how many bytes were unpacked for that."""

    records: Bytes
    batches: Batches
    unpacked_bytes: int


def prepared(
    records: Bytes,
    config: LogConfig,
    now_ms: int,
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
    *,
    may_take_long: bool = False,
    origin: AppendOrigin = PRODUCER,
) -> Converted:
    """The batches of one append, checked, with their largest timestamps, in the topic's codec. Raises as the append
    would."""
    records, batches = check_produced(records, config, now_ms, may_take_long=may_take_long, origin=origin)
    if config.compression_type == "producer":
        return Converted(records, batches, 0)
    return in_topic_codec(records, batches, config, max_unpacked_bytes, origin)


def in_topic_codec(
    records: Bytes,
    batches: Batches,
    config: LogConfig,
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
    origin: AppendOrigin = PRODUCER,
) -> Converted:
    """Checked batches in the topic's codec; the same objects if there is nothing to do."""
    if config.compression_type == "producer" or not _needs_conversion(batches, config):
        return Converted(records, batches, 0)
    target, level = target_of(config)
    view = memoryview(records)
    pieces: list[Bytes] = []
    converted: Batches = []
    at = unpacked_bytes = 0
    for position, header in batches:
        piece: Bytes = view[position : position + header.size_bytes]
        if header.codec != target and not header.is_control:
            body = _unpacked(piece[HEADER_BYTES:], header.codec, config, max_unpacked_bytes - unpacked_bytes, origin)
            check_unpacked(header, len(body))
            unpacked_bytes += len(body) if header.codec != Codec.NONE else 0
            attributes = header.attributes & ~CODEC_MASK | target
            packed = compress(target, body, level_for(target, level, len(body)))
            piece = pack_batch(header._replace(attributes=attributes), packed)
            header = read_header(piece)
            if origin is PRODUCER:
                check_size(header, config, f", with compression.type={config.compression_type},")
        pieces.append(piece)
        converted.append((at, header))
        at += header.size_bytes
    if origin is PRODUCER and at > config.segment_bytes:
        raise RecordListTooLargeError(
            f"{at} bytes, with compression.type={config.compression_type}, do not fit into a segment of "
            f"segment.bytes = {config.segment_bytes}"
        )
    return Converted(pieces[0] if len(pieces) == 1 else b"".join(pieces), converted, unpacked_bytes)


def is_due(records: Bytes, config: LogConfig) -> bool:
    """True if `prepared` takes long. The append refuses bad headers."""
    may_convert, is_known = config.compression_type != "producer", isinstance(records, ReadableRecords)
    if is_known and not may_convert and not config.is_compacted:
        return False
    try:
        batches = list(iter_headers(records))
        if may_convert and _needs_conversion(batches, config):
            return True
        return takes_long(batches) if config.is_compacted else not is_known and bool(to_look_at(batches, config))
    except ApiError:
        return False


def seen_at_once(records: Bytes, config: LogConfig) -> bytes | None:
    """The records, if a short look shows that every reader takes them: marked if it was at all of them. None where a
    thread must look, or nobody. Bad headers are the append's to refuse."""
    if config.is_compacted:
        return None
    try:
        batches = to_look_at(list(iter_headers(records)), config)
        seen = readable_at_once(records, batches) if batches else None
    except ApiError:
        return None
    return seen if seen is None or config.validates_records else bytes(seen)


def _needs_conversion(batches: Batches, config: LogConfig) -> bool:
    target, _ = target_of(config)
    return any(header.codec != target and not header.is_control for _, header in batches)


def target_of(config: LogConfig) -> tuple[Codec, int | None]:
    """The codec of a topic whose `compression.type` is not `producer`, and its level (KIP-390)."""
    target = _TARGETS[config.compression_type]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return target, levels.get(target)


def level_for(codec: Codec, level: int | None, size_bytes: int) -> int | None:
    """The level at which a body of this size is packed for a topic of that level: a large one at no slow level."""
    is_slow = codec == Codec.ZSTD and level is not None and level > SLOW_LEVEL
    return SLOW_LEVEL if is_slow and size_bytes > SLOW_BYTES_MAX else level


def _unpacked(body: Bytes, codec: Codec, config: LogConfig, left_bytes: int, origin: AppendOrigin) -> bytes:
    limit_bytes = MAX_UNPACKED_BYTES if codec == Codec.NONE else left_bytes
    if config.compression_type == "uncompressed" and origin is PRODUCER:
        limit_bytes = min(limit_bytes, max(config.max_message_bytes - HEADER_BYTES, 0))
    try:
        return decompress(codec, memoryview(body), limit_bytes)
    except MessageTooLargeError as error:
        raise MessageTooLargeError(
            f"{error}; it had to be unpacked for compression.type={config.compression_type}, and max.message.bytes is "
            f"{config.max_message_bytes}"
        ) from error
