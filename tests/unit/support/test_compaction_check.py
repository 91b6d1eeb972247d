"""The judge of compacted logs finds each thing that may be wrong with them; the two ways to a git history agree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.record.builder import build_batch
from tests.compaction_check import Findings, Table, check_node, fold_file, fold_git
from tests.support.keyed_history import git_updates, made_up_updates, write_updates

Rows = list[tuple[bytes, bytes | None]]
EXPECTED: Table = {b"a": b"1", b"b": b"2", b"c": None}
GOOD: Rows = [(b"a", b"1"), (b"b", b"2"), (b"c", None)]


def batch(base_offset: int, rows: Rows) -> bytes:
    return build_batch([v for _, v in rows], keys=[k for k, _ in rows], timestamps_ms=1, base_offset=base_offset)


def checked(directory: Path, *segments: bytes, expected: Table = EXPECTED) -> Findings:
    """Segments of partition 0, each with its number for a name."""
    (directory / "t-0").mkdir(exist_ok=True)
    for number, content in enumerate(segments):
        (directory / "t-0" / f"{100 * number:020d}.log").write_bytes(content)
    return check_node(directory, "t", expected)


def test_the_last_values_are_good_and_counted(tmp_path: Path) -> None:
    found = checked(tmp_path, batch(0, [(b"a", b"0")]), batch(100, GOOD[:2]), batch(200, [(b"c", None)]))
    assert (found.wrong, found.keys, found.deleted_keys, found.tombstones) == (0, 2, 1, 1)
    assert (found.records, found.segments, found.superseded) == (4, 3, 1)


def test_a_deleted_key_may_be_gone_altogether(tmp_path: Path) -> None:
    assert checked(tmp_path, batch(0, GOOD[:2])).wrong == 0


def test_what_the_active_segment_replaces_is_no_lateness(tmp_path: Path) -> None:
    assert checked(tmp_path, batch(0, [(b"a", b"0")]), batch(100, GOOD)).superseded == 0


BAD: dict[str, tuple[Rows, str]] = {
    "an old value": ([(b"a", b"0"), *GOOD[1:]], "b'a' is b'0', must be b'1'"),
    "a missing key": (GOOD[1:], "b'a' is None"),
    "a deleted key that is back": ([*GOOD, (b"c", b"3")], "b'c' is b'3', must be None"),
    "an older value after a newer one": ([*GOOD, (b"b", b"1")], "b'b' is b'1'"),
    "a key that nobody wrote": ([*GOOD, (b"d", b"4")], "b'd' was never written"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_key_is_found(tmp_path: Path, name: str) -> None:
    rows, words = BAD[name]
    found = checked(tmp_path, batch(0, rows))
    assert found.wrong == 1 and words in found.examples[0]


def test_a_key_in_two_partitions_is_found(tmp_path: Path) -> None:
    (tmp_path / "t-1").mkdir()
    (tmp_path / "t-1" / "00.log").write_bytes(batch(0, GOOD[:1]))
    assert "in another partition" in checked(tmp_path, batch(0, GOOD)).examples[0]


@pytest.mark.parametrize("at", [8, 17, 40, 70])
def test_a_damaged_batch_is_found(tmp_path: Path, at: int) -> None:
    content = bytearray(batch(0, GOOD) + batch(3, GOOD))
    content[at + len(content) // 2] ^= 0x10
    found = checked(tmp_path, bytes(content))
    assert found.wrong >= 1 and any("batch" in one or "offset" in one for one in found.examples)


def test_a_torn_tail_and_a_leftover_are_found(tmp_path: Path) -> None:
    assert checked(tmp_path, batch(0, GOOD)[:-1]).wrong >= 1
    (tmp_path / "t-0" / "00.log.swap").touch()
    assert "is left" in checked(tmp_path, batch(0, GOOD)).examples[0]


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


def test_both_ways_to_a_git_history_end_with_the_files_of_its_last_commit(tmp_path: Path) -> None:
    repository = tmp_path / "some"
    repository.mkdir()
    git(repository, "init")
    for number, name in enumerate(["a", "b", "with space", "line\nbreak", "ümlaut", "a", "b"]):
        (repository / name).write_text(str(number))
        git(repository, "add", ".")
        git(repository, "commit", "-m", str(number))
    git(repository, "rm", "b")
    git(repository, "mv", "a", "moved")
    git(repository, "commit", "-m", "last")
    folded: Table = {}
    fold_git(str(repository / ".git"), folded)
    assert dict(git_updates(repository / ".git")) == folded
    listed = subprocess.run(["git", "ls-tree", "-r", "-z", "HEAD"], cwd=repository, check=True, capture_output=True)
    rows = [row.split(b"\t") for row in listed.stdout.split(b"\0")[:-1]]
    there = {b"some:" + path: what.split(b" ")[2] for what, path in rows}
    assert {key: value for key, value in folded.items() if value is not None} == there
    assert {key for key, value in folded.items() if value is None} == {b"some:a", b"some:b"}


def test_made_up_updates_are_the_same_again_and_come_through_a_file(tmp_path: Path) -> None:
    updates = list(made_up_updates(7, 500, 50))
    assert updates == list(made_up_updates(7, 500, 50))
    write_updates(tmp_path / "updates", updates)
    folded: Table = {}
    fold_file(str(tmp_path / "updates"), folded)
    assert folded == dict(updates) and None in folded.values()
