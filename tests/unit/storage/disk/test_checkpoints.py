"""Small files: written whole or not at all, and refused when damaged."""

from __future__ import annotations

import contextlib
from itertools import product

import pytest

from penstock.errors import CorruptFileError
from penstock.types import EpochEntry, TopicPartition
from storage.disk.atomic_file import write_atomically
from storage.disk.checkpoint_file import (
    OffsetLines,
    read_epochs,
    read_offset_lines,
    read_offsets,
    write_epochs,
    write_offset_lines,
    write_offsets,
)
from storage.disk.file_names import (
    parse_partition_directory,
    parse_segment_file,
    set_aside_directory,
    set_aside_suffix,
)
from storage.disk.sealed_text import seal
from storage.segment.epoch_cache import EpochCache
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.machine import small_file_writes


@pytest.fixture
def fs() -> LosingFileSystem:
    return LosingFileSystem()


def put(fs: LosingFileSystem, path: str, content: bytes) -> None:
    fd = fs.open(path, create=not fs.exists(path))
    fs.pwritev(fd, [content], 0)
    fs.close(fd)


def test_at_every_crash_point_the_old_content_or_the_new_is_there() -> None:
    for crash_at in range(1, 12):
        fs = LosingFileSystem()
        write_atomically(fs, "/file", b"old")
        fs.operations = 0
        fs.crash_at = crash_at
        done = False
        with contextlib.suppress(Crashed):
            write_atomically(fs, "/file", b"new content")
            done = True
        found = fs.after_crash().read_file("/file")
        assert found in ((b"new content",) if done else (b"old", b"new content"))


def test_offset_checkpoint_is_kafkas_text_with_a_checksum(fs: LosingFileSystem) -> None:
    offsets = {TopicPartition("orders", 0): 4711, TopicPartition("orders.eu", 12): 0}
    write_offsets(fs, "/c", offsets)

    assert fs.read_file("/c") == b"1\n2\norders 0 4711\norders.eu 12 0\ncrc32c 95913238\n"
    assert read_offsets(fs, "/c") == offsets
    assert read_offsets(fs, "/missing") is None


def test_offset_checkpoint_can_say_whose_the_lines_are(fs: LosingFileSystem) -> None:
    known, unknown = TopicPartition("orders", 0), TopicPartition("orders.eu", 12)
    lines = OffsetLines({known: 4711, unknown: 0}, {known: "A" * 22})
    write_offset_lines(fs, "/c", lines)

    assert fs.read_file("/c").startswith(b"2\n2\norders 0 4711 AAAAAAAAAAAAAAAAAAAAAA\norders.eu 12 0 -\ncrc32c ")
    assert read_offset_lines(fs, "/c") == lines and read_offsets(fs, "/c") == lines.offsets
    put(fs, "/before", seal("1\n1\norders 0 4711\n"))
    assert read_offset_lines(fs, "/before") == OffsetLines({known: 4711}, {})


def test_epoch_checkpoint_is_kafkas_text_with_a_checksum(fs: LosingFileSystem) -> None:
    entries = (EpochEntry(0, 0), EpochEntry(3, 4711))
    write_epochs(fs, "/e", entries)

    assert fs.read_file("/e") == b"1\n2\n0 0\n3 4711\ncrc32c 66444a26\n"
    assert read_epochs(fs, "/e") == entries


def test_checkpoints_of_kafka_and_of_before_are_read(fs: LosingFileSystem) -> None:
    put(fs, "/c", b"0\n1\ncrc32c 0 4711\n")
    put(fs, "/e", b"0\n2\n0 0\n3 4711\n")

    assert read_offsets(fs, "/c") == {TopicPartition("crc32c", 0): 4711}
    assert read_epochs(fs, "/e") == (EpochEntry(0, 0), EpochEntry(3, 4711))


def test_any_flipped_bit_and_any_cut_of_a_checkpoint_is_seen(fs: LosingFileSystem) -> None:
    write_offsets(fs, "/c", {TopicPartition("orders", 0): 4711, TopicPartition("crc32c", 12): 0})
    write_epochs(fs, "/e", (EpochEntry(0, 0), EpochEntry(3, 4711)))
    write_offset_lines(fs, "/i", OffsetLines({TopicPartition("o", 0): 4711}, {TopicPartition("o", 0): "A" * 22}))
    cases = 0
    for path, read in (("/c", read_offsets), ("/e", read_epochs), ("/i", read_offset_lines)):
        content = fs.read_file(path)
        damaged = [content[:size] for size in range(len(content))]
        for at, bit in product(range(len(content)), range(8)):
            damaged.append(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        for raw in damaged:
            fs.cut(path, 0)
            put(fs, path, raw)
            with pytest.raises(CorruptFileError, match=path):
                read(fs, path)
            cases += 1

    assert cases == 9 * (fs.size("/c") + fs.size("/e") + fs.size("/i"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"2\n0\n",
        b"1\n0\ncrc32c 00000000\n",
        b"2\n0\ncrc32c 00000000\n",
        seal("2\n1\norders 0 1\n"),
        seal("3\n1\norders 0 1 A\n"),
        seal("1\n1\norders 0 1 A\n"),
        b"0\n1\norders 0 1\ncrc32c 00000000\n",
        b"0\n1\n",
        b"0\n0\norders 0 1\n",
        b"0\n1\norders 0 1",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 x\n",
        b"0\n1\norders 0 -1\n",
        b"0\n1\norders  0 1\n",
        b"0\n1\n\xff 0 1\n",
        b"zero\n0\n",
    ],
)
def test_damaged_offset_checkpoints_are_refused_by_name(fs: LosingFileSystem, content: bytes) -> None:
    put(fs, "/c", content)

    with pytest.raises(CorruptFileError, match="/c"):
        read_offsets(fs, "/c")


@pytest.mark.parametrize("rows", [b"3 5\n2 9\n", b"2 9\n3 9\n", b"2 9\n2 10\n"])
def test_epochs_that_do_not_ascend_are_refused(fs: LosingFileSystem, rows: bytes) -> None:
    put(fs, "/e", b"0\n2\n" + rows)

    with pytest.raises(CorruptFileError):
        read_epochs(fs, "/e")


def test_an_older_epoch_snapshot_never_replaces_a_newer_one(fs: LosingFileSystem) -> None:
    cache = EpochCache(fs, "/", (), small_file_writes())
    cache.assign(1, 0)
    older = cache.unpersisted()
    cache.assign(2, 5)
    newer = cache.unpersisted()
    assert older is not None and newer is not None
    cache.persist(newer)
    cache.persist(older)

    assert read_epochs(fs, "//leader-epoch-checkpoint") == cache.entries
    assert cache.unpersisted() is None


def test_a_closed_epoch_cache_writes_nothing(fs: LosingFileSystem) -> None:
    cache = EpochCache(fs, "/", (), small_file_writes())
    cache.assign(1, 0)
    snapshot = cache.unpersisted()
    assert snapshot is not None
    cache.names.end()
    cache.persist(snapshot)

    assert fs.files() == []


def test_names_are_kafkas() -> None:
    assert parse_segment_file("00000000000000000042.log") == (42, ".log")
    assert parse_segment_file("42.log") is None
    assert parse_segment_file("00000000000000000042.log.deleted") is None
    assert parse_partition_directory("my-topic.x_y-12") == TopicPartition("my-topic.x_y", 12)
    for name in ("orders", "orders-", "orders-01", "-0", "orders-0.abc-delete", "a b-0"):
        assert parse_partition_directory(name) is None


def test_a_name_that_is_set_aside_fits_and_is_no_partition() -> None:
    name = set_aside_directory(TopicPartition("t" * 249, 2_000_000_000), "u" * 22, "-delete")

    assert len(name) <= 255
    assert set_aside_suffix(name) == "-delete"
    assert parse_partition_directory(name) is None
