"""A table of corruptions: what `penstock log verify` finds of each, what a start then does, and that both agree.

Verify reads for itself, because a start reads only what was not flushed, and ends at the first bad byte. So the start's
own code runs beside it here, on an overlay: it refuses the log where verify has found damage that it comes upon, and
cuts it exactly where verify has found a torn tail.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.disk.file_system import OsFileSystem
from storage.tools.overlay import OverlayFileSystem
from storage.tools.recover import Recovered, RecoverOptions, recover
from storage.tools.target import find_target
from storage.tools.verify.findings import Finding
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from tests.support.log_dirs import BATCH_BYTES, FIRST, SECOND, THIRD, cut, flip, make_log_dir
from tests.support.machine import machine

FLUSHED = 16
Damage = Callable[[Path], object]
Row = tuple[str, str, str, int | None, int | None]
"""Severity, kind, name of the file, position, offset."""


def grown(path: Path, zeros: int) -> None:
    path.write_bytes(path.read_bytes() + bytes(zeros))


def hole(path: Path, at: int) -> None:
    """A batch is missing."""
    data = path.read_bytes()
    path.write_bytes(data[: at * BATCH_BYTES] + data[(at + 1) * BATCH_BYTES :])


def of(name: str, act: Callable[..., object], *arguments: int) -> Damage:
    """The damage of one file of the log, or with `../` of its log dir."""
    return lambda orders: act(orders / name, *arguments)


INDEX = FIRST.replace(".log", ".index")
TIMES = FIRST.replace(".log", ".timeindex")
SNAPSHOT = THIRD.replace(".log", ".snapshot")
B = BATCH_BYTES
ORPHANS = [("warning", "index-orphan", SECOND.replace(".log", end), None, None) for end in (".index", ".timeindex")]
REFUSED, AS_IT_IS = "refused", "as it is"
TABLE: dict[str, tuple[Damage, list[Row], str | int]] = {
    "nothing": (lambda orders: None, [], AS_IT_IS),
    "a bit in the first segment": (
        of(FIRST, flip, 2 * B + 40),
        [("damage", "rot", FIRST, 2 * B, 2)],
        AS_IT_IS,  # it is flushed, and not read: verify finds it before a reader does
    ),
    "a flushed bit in the newest segment": (of(THIRD, flip, B + 40), [("damage", "rot", THIRD, B, 15)], REFUSED),
    "a bit behind the recovery point": (
        of(THIRD, flip, 3 * B + 40),
        [("warning", "torn-tail", THIRD, 3 * B, 17)],
        3 * B,
    ),
    "a cut within an append": (of(THIRD, cut, 5 * B + 10), [("warning", "torn-tail", THIRD, 5 * B, 19)], 10),
    "zeros behind the log": (of(THIRD, grown, 200), [("warning", "torn-tail", THIRD, 6 * B, 20)], 200),
    "a cut of flushed records": (of(THIRD, cut, B), [("damage", "short", THIRD, B, 15)], REFUSED),
    "a hole behind the recovery point": (of(THIRD, hole, 3), [("warning", "torn-tail", THIRD, 3 * B, 17)], 2 * B),
    "a flushed hole": (
        of(THIRD, hole, 1),  # each batch behind it stands where another one should
        [("damage", "rot", THIRD, n * B, 14 + n) for n in range(1, 5)],
        REFUSED,
    ),
    "a lost segment": (of(SECOND, Path.unlink), [*ORPHANS, ("damage", "rot", THIRD, 0, 7)], AS_IT_IS),
    "a bit in an epoch": (of(THIRD, flip, B + 15, 2), [("damage", "rot", THIRD, B, 15)], REFUSED),
    "an index": (of(INDEX, flip, 3, 64), [("warning", "index", INDEX, 0, None)], AS_IT_IS),
    "a time index": (of(TIMES, flip, 7, 64), [("warning", "index", TIMES, 0, None)], AS_IT_IS),
    "a lost index": (of(INDEX, Path.unlink), [("warning", "index-missing", INDEX, None, None)], AS_IT_IS),
    "a snapshot of producers": (of(SNAPSHOT, flip, 5), [("warning", "snapshot", SNAPSHOT, 139, None)], AS_IT_IS),
    "the epochs": (
        of("leader-epoch-checkpoint", flip, 4),
        [("warning", "epoch-checkpoint", "leader-epoch-checkpoint", 12, None)],
        AS_IT_IS,
    ),
    "the topic id": (
        of("partition.metadata", Path.unlink),
        [("damage", "partition-metadata", "partition.metadata", None, None)],
        AS_IT_IS,  # the owner of the log refuses it
    ),
    "a file on its way out": (
        of(f"{SECOND}.deleted", Path.touch),
        [("warning", "leftover", f"{SECOND}.deleted", None, None)],
        AS_IT_IS,
    ),
    "the recovery points": (
        of("../recovery-point-offset-checkpoint", flip, 6),
        [("warning", "checkpoint", "recovery-point-offset-checkpoint", 72, None)],
        AS_IT_IS,
    ),
}


def on_the_disk(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file and directory below: the bytes, when they were written, and which file it is."""
    found = {}
    for one in sorted(path.rglob("*")):
        status = one.stat()
        content = one.read_bytes() if one.is_file() else b""
        found[str(one.relative_to(path))] = content, status.st_mtime_ns, status.st_ino
    return found


def verified(path: Path) -> list[Finding]:
    found = verify(find_target(OverlayFileSystem(), str(path)), VerifyOptions(deep=True))
    return [one for one in found if isinstance(one, Finding) and one.severity != "note"]


def started(path: Path) -> str | int:
    """A start's deed with orders-0, on an overlay: refused, as it is, or the bytes that it cuts."""
    fs, parts = OverlayFileSystem(), machine(OsFileSystem())
    for found in recover(fs, find_target(fs, str(path)), RecoverOptions(), parts.threads, parts.clock):
        if isinstance(found, Finding):
            return REFUSED
        if isinstance(found, Recovered) and found.directory.endswith("orders-0"):
            return found.cut_bytes or AS_IT_IS
    raise AssertionError("the start says nothing of the log")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data", clean=False, flushed=FLUSHED, producers=2)


@pytest.mark.parametrize("name", TABLE)
def test_each_corruption_is_found_and_a_start_does_what_was_said(data: Path, name: str) -> None:
    damage, wanted, then = TABLE[name]
    damage(data / "orders-0")
    before = on_the_disk(data)
    found = verified(data)
    rows = [(one.severity, one.kind, Path(one.file).name, one.position, one.offset) for one in found]
    assert rows == wanted
    assert started(data) == then
    assert on_the_disk(data) == before, "nothing on the disk was changed, nor written again"
    if isinstance(then, int):
        (torn,) = found
        assert re.search(rf"a torn tail of {then} bytes, above the recovery point {FLUSHED}\b", torn.what)


@pytest.mark.parametrize("at", range(0, 6 * B, 23))
def test_a_start_refuses_or_cuts_the_newest_segment_exactly_where_verify_says(data: Path, at: int) -> None:
    flip(data / "orders-0" / THIRD, at)
    (found,) = verified(data)
    then = started(data)
    assert {"rot": REFUSED, "torn-tail": 6 * B - (found.position or 0)}[found.kind] == then


def test_without_a_recovery_point_a_start_cuts_only_what_the_newest_segment_has(data: Path) -> None:
    (data / "recovery-point-offset-checkpoint").unlink()
    flip(data / "orders-0" / SECOND, 40)
    assert [one.kind for one in verified(data)] == ["rot"] and started(data) == REFUSED
