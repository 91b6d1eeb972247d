"""`penstock log verify` on logs with transactions: sound ones, and indexes that say something else than the batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from storage.append.transaction_state import NO_TRANSACTION
from storage.disk.file_names import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from storage.disk.file_system import OsFileSystem
from storage.recovery.producer_recovery import found_snapshots
from storage.recovery.producer_snapshot import read_snapshot, snapshot_content, snapshot_path
from storage.recovery.recovery import LastKnown
from storage.segment.transaction_index import ENTRY, ENTRY_BYTES, IndexedSegment
from storage.tools.target import LogPath
from storage.tools.verify.findings import Finding, LogReport
from storage.tools.verify.verify_log import VerifyOptions, verify_log
from tests.battery.images import Image, image, transactional
from tests.battery.nodes import DIR, KEYED, ONE
from tests.battery.workload import Workload
from tests.support.losing_fs import LosingFileSystem

clean_image: Callable[[], Image] = cache(partial(image, "transactional", True))


def written(fs: LosingFileSystem, path: Path) -> Path:
    path.mkdir(parents=True)
    for file in fs.files(f"{DIR}/{ONE}"):
        (path / file.rpartition("/")[2]).write_bytes(fs.read_file(file))
    return path


def findings(path: Path) -> list[Finding]:
    found = list(verify_log(LogPath(str(path), ONE), LastKnown(True, 30), VerifyOptions(deep=True)))
    assert isinstance(found[-1], LogReport)
    return [one for one in found if isinstance(one, Finding)]


def index_of(path: Path) -> Path:
    return next(one for one in sorted(path.iterdir()) if one.suffix == TXN_INDEX_SUFFIX)


def believed(path: Path, content: bytes) -> None:
    """The first index has this content, and the snapshots say that it is right."""
    index, fs = index_of(path), OsFileSystem()
    index.write_bytes(content)
    changed = IndexedSegment.of(int(index.stem), content)
    for offset in found_snapshots(fs.entries(str(path))):
        snapshot = read_snapshot(fs, str(path), offset)
        assert snapshot is not None
        indexes = tuple(changed if one.base_offset == changed.base_offset else one for one in snapshot.indexes)
        Path(snapshot_path(str(path), offset)).write_bytes(snapshot_content(snapshot._replace(indexes=indexes)))


def test_a_log_that_was_stopped_in_order_is_sound(tmp_path: Path) -> None:
    assert findings(written(clean_image().fs, tmp_path / "t")) == []


@pytest.mark.parametrize("what", ["missing", "cut", "flipped"])
def test_a_file_that_does_not_fit_its_checksum_costs_time_only(tmp_path: Path, what: str) -> None:
    path = written(clean_image().fs, tmp_path / "t")
    index = index_of(path)
    content = index.read_bytes()
    if what == "missing":
        index.unlink()
    else:
        index.write_bytes(content[:-1] if what == "cut" else bytes([content[0] ^ 1]) + content[1:])
    (found,) = findings(path)
    assert (found.severity, found.kind, found.file) == ("warning", "index", str(index))


def test_a_file_that_a_start_believes_and_that_is_wrong_is_damage(tmp_path: Path) -> None:
    content = index_of(written(clean_image().fs, tmp_path / "t")).read_bytes()
    version, producer_id, first, last, stable = ENTRY.unpack(content[:ENTRY_BYTES])
    wrong = {
        "no entry of the first": content[ENTRY_BYTES:],
        "a batch before it": ENTRY.pack(version, producer_id, first + 1, last, stable) + content[ENTRY_BYTES:],
        "another producer": ENTRY.pack(version, producer_id + 50, first, last, stable) + content[ENTRY_BYTES:],
        "no marker there": ENTRY.pack(version, producer_id, first, last - 1, stable) + content[ENTRY_BYTES:],
        "from before the last marker": ENTRY.pack(version, producer_id, 0, last, stable) + content[ENTRY_BYTES:],
    }
    for what, changed in wrong.items():
        path = written(clean_image().fs, tmp_path / what)
        believed(path, changed)
        assert {(one.severity, one.kind) for one in findings(path)} == {("damage", "index")}, what


def test_a_file_without_a_snapshot_that_names_it_is_not_looked_at(tmp_path: Path) -> None:
    path = written(clean_image().fs, tmp_path / "t")
    for one in path.iterdir():
        if one.suffix == SNAPSHOT_SUFFIX:
            one.unlink()
    index_of(path).write_bytes(b"\x2a" * 40)
    assert findings(path) == []


def test_a_snapshot_that_does_not_know_an_open_transaction_is_damage(tmp_path: Path) -> None:
    path, fs = written(clean_image().fs, tmp_path / "t"), OsFileSystem()
    offset = found_snapshots(fs.entries(str(path)))[0]
    snapshot = read_snapshot(fs, str(path), offset)
    assert snapshot is not None
    producer_id = next(one for one, known in snapshot.producers.items() if known.has_open_transaction)
    known = snapshot.producers[producer_id]
    changed = {
        "closed": {**snapshot.producers, producer_id: known._replace(transaction=NO_TRANSACTION)},
        "unknown": {one: entry for one, entry in snapshot.producers.items() if one != producer_id},
    }
    for producers in changed.values():
        content = snapshot_content(snapshot._replace(producers=producers))
        Path(snapshot_path(str(path), offset)).write_bytes(content)
        assert {(one.severity, one.kind) for one in findings(path)} == {("damage", "snapshot")}


def test_no_moment_of_a_cleaning_or_a_crash_looks_like_damage(tmp_path: Path) -> None:
    moments: list[LosingFileSystem] = []
    node = Workload(LosingFileSystem())
    node.open()
    node.fs.watch = lambda now: moments.append(now.after_crash()) if now.operations % 7 == 0 else None
    transactional(node)
    node.fs.watch = None
    for at, disk in enumerate(moments):
        for topic_partition in (ONE, KEYED):
            path = tmp_path / f"{at}-{topic_partition}"
            files = [file for file in disk.files(DIR) if file.startswith(f"{DIR}/{topic_partition}/")]
            if not any(file.endswith(".log") for file in files):
                continue
            path.mkdir()
            for file in files:
                (path / file.rpartition("/")[2]).write_bytes(disk.read_file(file))
            log = LogPath(str(path), topic_partition)
            found = [one for one in verify_log(log, LastKnown(False, 0), VerifyOptions()) if isinstance(one, Finding)]
            assert not [one for one in found if one.severity == "damage"], (at, found)
