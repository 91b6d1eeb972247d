"""Record batches that no honest client makes: any header under a right checksum, bombs, and numbers that are wrong."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import crc32c

from penstock.record.batch import HEADER_BYTES
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES

NOW_MS = 1_700_000_000_000
RECORDS_MAX = (1 << 31) - 1
BOMB_BYTES = (60 << 20, 200 << 20)


def batch(body: bytes, **given: int) -> bytes:
    """A record batch v2 with any header, its checksum right."""
    fields = {"count": 1, "last_delta": 0, "attributes": 0, "producer_id": -1, "base_offset": 0, "magic": 2}
    fields |= {"length": HEADER_BYTES - 12 + len(body)} | given
    tail = struct.pack(
        ">hiqqqhii",
        *(fields["attributes"], fields["last_delta"], NOW_MS, NOW_MS, fields["producer_id"], -1, -1, fields["count"]),
    )
    head = struct.pack(">qiib", fields["base_offset"], fields["length"], -1, fields["magic"])
    return head + struct.pack(">I", crc32c.crc32c(tail + body)) + tail + body


def announcing() -> bytes:
    """A tiny batch that announces 2³¹−1 records."""
    return batch(b"junkjunk", count=RECORDS_MAX, last_delta=RECORDS_MAX - 1)


def bomb(source: Random) -> tuple[bytes, bool]:
    """A batch of few bytes that opens to very many; True if that is more than may be opened."""
    size = source.choice(BOMB_BYTES)
    codec = source.choice((Codec.ZSTD, Codec.GZIP))
    return batch(compress(codec, bytes(size)), attributes=int(codec)), size > DEFAULT_MAX_DECOMPRESSED_BYTES


def wrong_batches(source: Random) -> Iterator[bytes]:
    """Headers with one number that is wrong, and noise for records, which are not parsed."""
    body = build_batch([b"v" * 10], timestamps_ms=NOW_MS)[HEADER_BYTES:]
    wrong: tuple[dict[str, int], ...] = (
        *({"count": n} for n in (0, -1, 2, RECORDS_MAX)),
        *({"last_delta": n} for n in (-1, 1, RECORDS_MAX)),
        *({"length": n} for n in (-1, 0, RECORDS_MAX)),
        *({"magic": n} for n in (0, 1, 3, -1)),
        *({"attributes": n} for n in (0x10, 0x20, 0x30, 0x40, 5, 7, 0x7F80, -128)),
        *({"producer_id": n} for n in (-5, 5)),
        *({"base_offset": n} for n in (-9, (1 << 63) - 1)),
    )
    for fields in wrong:
        yield batch(body, **fields)
    yield batch(source.randbytes(len(body)))
