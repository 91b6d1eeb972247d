"""Log dirs of several nodes, made by hand: equal replicas of one partition, in which tests then plant damage."""

from __future__ import annotations

from pathlib import Path

from crc32c import crc32c

from penstock.record.batch import iter_headers, set_placement
from penstock.record.builder import build_batch

TOPIC, PARTITION = "orders", 0
SEGMENTS, BATCHES, RECORDS = 3, 4, 5
"""Two segments are closed, each of four batches of five records."""


def batch_bytes(offset: int, word: bytes = b"v", epoch: int = 3) -> bytes:
    """One batch of five records that begins at an offset."""
    made = bytearray(
        build_batch([b"%s-%03d" % (word, offset + n) for n in range(RECORDS)], timestamps_ms=1_000 + offset)
    )
    set_placement(made, 0, offset, epoch)
    return bytes(made)


def segment_path(log_dir: Path, offset: int) -> Path:
    return log_dir / f"{TOPIC}-{PARTITION}" / f"{offset:020d}.log"


def make_log_dirs(root: Path, nodes: int = 3, *, high_watermark: int = 60, cleaned: int = 0) -> tuple[str, ...]:
    """Segments begin at the offsets 0, 20 and 40; the third is the open one."""
    return tuple(str(_log_dir(root / f"data-{node}", node, high_watermark, cleaned)) for node in range(nodes))


def _log_dir(log_dir: Path, node: int, high_watermark: int, cleaned: int) -> Path:
    (log_dir / f"{TOPIC}-{PARTITION}").mkdir(parents=True)
    (log_dir / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    (log_dir / f"{TOPIC}-{PARTITION}" / "partition.metadata").write_text("version: 1\ntopic_id: abc\n")
    write_checkpoint(log_dir / "replication-offset-checkpoint", high_watermark)
    write_checkpoint(log_dir / "cleaner-offset-checkpoint", cleaned)
    for number in range(SEGMENTS):
        base = number * BATCHES * RECORDS
        whole = b"".join(batch_bytes(base + n * RECORDS) for n in range(BATCHES))
        segment_path(log_dir, base).write_bytes(whole)
    return log_dir


def write_checkpoint(path: Path, offset: int) -> None:
    content = f"1\n1\n{TOPIC} {PARTITION} {offset}\n".encode()
    path.write_bytes(content + b"crc32c %08x\n" % crc32c(content))


def flip_bit(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)


def replace_batch(path: Path, number: int, new: bytes) -> int:
    """Puts other bytes in the place of the batch of that number in a file; returns its position."""
    raw = path.read_bytes()
    at, header = list(iter_headers(raw))[number]
    path.write_bytes(raw[:at] + new + raw[at + header.size_bytes :])
    return at
