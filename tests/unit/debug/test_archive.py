"""A bundle is there whole or not at all, for its owner alone; what is read is bounded and may come from anybody."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tarfile
from pathlib import Path

import pytest

from penstock.debug import archive
from penstock.debug.archive import CUT, FORMAT, INDEX, BundleWriter, read_bundle
from penstock.errors import ConfigError

INDEX_TEXT = json.dumps({"format": FORMAT, "parts": []})


def written(path: Path, **files: str) -> Path:
    with BundleWriter(path, "folder", 7) as writer:
        for name, text in files.items():
            writer.add(name, text)
        writer.add(INDEX, INDEX_TEXT)
    return path


def tarred(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def member(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def test_what_is_written_is_read(tmp_path: Path) -> None:
    read = read_bundle(written(tmp_path / "b.tar.gz", one='{"a": 1}', two="ö no JSON"))
    assert read.files == {"one": b'{"a": 1}', "two": "ö no JSON".encode()}
    assert read.json("one") == {"a": 1}
    assert read.json("two") is None is read.json("three")


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = written(tmp_path / "b.tar.gz")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as tar:
        assert {(one.mode, one.mtime, one.name) for one in tar} == {(0o600, 7, f"folder/{INDEX}")}


def test_a_bundle_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), BundleWriter(tmp_path / "b.tar.gz", "folder", 7) as writer:
        writer.add("one", "x")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_run_left_is_no_hindrance_and_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz.part").write_text("of a run that was killed")
    path = written(tmp_path / "b.tar.gz", one="1")
    with pytest.raises(FileExistsError):
        written(path, one="2")
    assert read_bundle(path).files == {"one": b"1"}


def test_a_part_that_is_too_long_keeps_its_end(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b.tar.gz", "folder", 7, part_bytes_max=100) as writer:
        writer.add("log", "a" * 200 + "the end")
        writer.add(INDEX, INDEX_TEXT)
    read = read_bundle(tmp_path / "b.tar.gz")
    assert (
        len(read.files["log"]) == 100 and read.files["log"].startswith(CUT) and read.files["log"].endswith(b"the end")
    )


def test_what_is_no_bundle_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    whole = written(path, one="x" * 5_000).read_bytes()
    wrong = [
        b"",
        b"no gzip",
        gzip.compress(b"no tar"),
        whole[: len(whole) // 2],
        whole[:-20],
        whole[:30] + bytes(20) + whole[50:],
    ]
    for number, data in enumerate(wrong):
        path.write_bytes(data)
        with pytest.raises(ConfigError, match="no bundle"):
            read_bundle(path)
            pytest.fail(str(number))
    with pytest.raises(ConfigError, match="no bundle"):
        read_bundle(tarred(path, member("folder/one", b"1")))
    for index in (b"{", b"[]", b'{"format": 1}', b'{"format": 1, "parts": [1]}', b'{"format": 1, "parts": 5}'):
        with pytest.raises(ConfigError, match="no bundle"):
            read_bundle(tarred(path, member(f"folder/{INDEX}", index)))
    with pytest.raises(ConfigError, match="format 2"):
        read_bundle(tarred(path, member(f"folder/{INDEX}", b'{"format": 2, "parts": []}')))


def test_a_bundle_beyond_the_bounds_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    info = tarfile.TarInfo("folder/large")
    info.size = archive.BUNDLE_BYTES_MAX + 1
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf() + bytes(1 << 20)))
    with pytest.raises(ConfigError, match="at most"):
        read_bundle(path)


def test_nothing_but_files_is_read(tmp_path: Path) -> None:
    link = tarfile.TarInfo("folder/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = tarred(tmp_path / "b.tar.gz", (link, b""), member(f"folder/{INDEX}", INDEX_TEXT.encode()))
    assert read_bundle(path).files == {}


def test_a_pipe_is_no_bundle_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is no file"):
        read_bundle(tmp_path / "pipe")
