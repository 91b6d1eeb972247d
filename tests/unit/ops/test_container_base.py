"""The base of the image: what the packages' scripts would need goes, and no word of the building machine stays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ops.container import base


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unpacked tree with two packages: one that is wanted and dpkg, whose one program is linked to."""
    files = {
        "usr/bin/dpkg": "program",
        "usr/bin/python3.11": "program",
        "usr/share/doc/python/copyright": "text",
        "usr/share/ca-certificates/mozilla/b.crt": "B\n",
        "usr/share/ca-certificates/mozilla/a.crt": "A\n",
        "etc/apt/sources.list": "deb http://where.this.machine.has/it",
        "etc/apt/apt.conf.d/00mmdebstrap": "mmdebstrap removes this",
        "etc/resolv.conf": "nameserver 10.0.0.1",
        "var/lib/apt/lists/all": "lists",
        "var/cache/apt/archives/dpkg_1_amd64.deb": "Package: dpkg\nVersion: 1\n",
        "var/cache/apt/archives/python3.11_3_amd64.deb": "Package: python3.11\nVersion: 3\nArchitecture: amd64\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(subprocess, "run", run)
    return tmp_path


def run(command: list[str], **_: object) -> subprocess.CompletedProcess[object]:
    """dpkg-deb's and tar's answers about archives that are their own fields."""
    match command[:2]:
        case ["dpkg-deb", "--field"]:
            return subprocess.CompletedProcess(command, 0, Path(command[2]).read_text())
        case ["tar", "-t"]:
            return subprocess.CompletedProcess(command, 0, b"./usr/\n./usr/bin/\n./usr/bin/dpkg\n")
        case ["dpkg-deb", "--fsys-tarfile"] | ["chroot", _]:
            return subprocess.CompletedProcess(command, 0, b"")
    raise AssertionError(command)


def test_a_base_has_its_user_the_authorities_and_a_note_of_each_package(root: Path) -> None:
    base.finish(root)
    assert (root / "etc/passwd").read_text().splitlines()[1].split(":")[:3] == ["penstock", "x", "10001"]
    assert (root / base.CERTIFICATES).read_text() == "A\nB\n"
    notes = {path.name: path.read_text() for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert notes == {"python3.11": "Package: python3.11\nVersion: 3\nArchitecture: amd64\n"}


def test_a_base_has_no_package_manager_and_no_word_of_the_machine_that_made_it(root: Path) -> None:
    base.finish(root)
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert not [path for path in left if "dpkg" in path and "status.d" not in path]
    assert not left & {"etc/apt/sources.list", "etc/resolv.conf", "var/lib/apt/lists/all"}
    assert "usr/bin/python3.11" in left and "etc/apt/apt.conf.d/00mmdebstrap" in left


def test_the_tree_is_merged_before_the_first_package(tmp_path: Path) -> None:
    base.prepare(tmp_path)
    assert (tmp_path / "lib64").readlink() == Path("usr/lib64") and (tmp_path / "usr/lib64").is_dir()
