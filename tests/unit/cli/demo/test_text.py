"""The demo's text: which files, how much of them, and that the records of a file are the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.demo.reading import require_spark
from penstock.cli.demo.text import LINE_BYTES_MAX, UNLIMITED, find_text
from penstock.errors import ConfigError, MissingDependencyError


def test_without_a_path_it_is_the_python_installation_and_not_what_was_installed_on_top() -> None:
    plan = find_text(None, UNLIMITED)
    names = {os.fsdecode(file.key) for file in plan.files}
    assert {"os.py", "json/decoder.py"} <= names
    assert all(name.endswith(".py") for name in names)
    assert not [name for name in names if "site-packages" in name or "dist-packages" in name]


def test_a_directory_is_every_file_below_it_in_a_stable_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.txt", "a", "b/x.md"):
        (tmp_path / name).write_text("one\n")
    (tmp_path / "empty").touch()
    (tmp_path / "again").symlink_to(tmp_path / "a")
    assert [file.key for file in find_text(tmp_path, UNLIMITED).files] == [b"a", b"c.txt", b"b/x.md"]


def test_a_file_is_its_own_plan(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo")
    (file,) = find_text(tmp_path / "a", UNLIMITED).files
    assert (file.key, file.lines()) == (b"a", [b"one\n", b"two"])


def test_the_bound_cuts_the_text_and_says_how_much_was_left_out(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"0123456789")
    plan = find_text(tmp_path, 15)
    assert [(file.key, file.size_bytes) for file in plan.files] == [(b"a", 10), (b"b", 5)]
    assert (plan.size_bytes, plan.left_out_bytes) == (15, 15)
    assert plan.files[1].lines() == [b"01234"]


@pytest.mark.parametrize("content", [b"a\n\nb", b"a\r\nb\rc\n", b"\n", b"x" * (2 * LINE_BYTES_MAX + 1), b"\xff\x00\n"])
def test_the_records_of_a_file_are_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    lines = find_text(tmp_path / "a", UNLIMITED).files[0].lines()
    assert b"".join(lines) == content
    assert max(map(len, lines)) <= LINE_BYTES_MAX


def test_nothing_to_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="all files are empty, or there are none"):
        find_text(tmp_path, UNLIMITED)
    with pytest.raises(ConfigError, match="no such file"):
        find_text(tmp_path / "none", UNLIMITED)


def test_a_missing_package_names_the_extra_and_the_way_without() -> None:
    with pytest.raises(MissingDependencyError, match=r"no_such_package.*penstock\[spark\].*--no-spark"):
        require_spark(["json", "no_such_package"])
