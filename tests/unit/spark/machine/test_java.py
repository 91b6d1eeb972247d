"""Promises about finding Java, with shell scripts in its place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from penstock.errors import MissingDependencyError
from penstock.spark.machine import java
from penstock.spark.machine.java import _cache_directory, find_java, java_version, wrap


def fake_java(home: Path, script: str, release: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    if release:
        (home / "release").write_text(release)
    return home


def test_the_version_is_read_from_the_release_file_or_asked(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path / "a", "exit 1", 'JAVA_VERSION="21.0.1"\n')) == 21
    assert java_version(fake_java(tmp_path / "b", "echo 'openjdk version \"1.8.0_402\"' >&2")) == 8
    assert java_version(fake_java(tmp_path / "c", "exit 1")) is None
    assert java_version(tmp_path / "nowhere") is None


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "", 'JAVA_VERSION="17"\n')
    other = fake_java(tmp_path / "other", "", 'JAVA_VERSION="21"\n')
    path = {"PATH": str(other / "bin")}
    assert find_java({"JAVA_HOME": str(home), **path}).home == home
    assert find_java(path).home == other


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "", 'JAVA_VERSION="11.0.2"\n')
    new = fake_java(tmp_path / "new", "", 'JAVA_VERSION="17.0.2"\n')
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_without_any_java_the_error_says_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    old = fake_java(tmp_path / "old", "", 'JAVA_VERSION="11.0.2"\n')
    with pytest.raises(
        MissingDependencyError, match=r"JAVA_HOME \(.*old\) is Java 11.*pip install 'penstock\[spark\]'"
    ):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_wrapper_drops_two_arguments_and_keeps_all_others(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "real home", 'for a do echo "<$a>"; done')
    wrapped = wrap(home, tmp_path / "cache")
    unknown = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    arguments = ["-cp", "a b:c", *unknown, "", "Main $x", "--add-modules=other"]
    done = subprocess.run([wrapped / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-cp>", "<a b:c>", "<>", "<Main $x>", "<--add-modules=other>"]
    assert wrap(home, tmp_path / "cache") == wrapped
    assert os.listdir(wrapped / "bin") == ["java"]


def test_a_user_without_a_home_and_a_name_has_a_temporary_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    found = _cache_directory()
    try:
        assert found.is_dir() and found.name.startswith("penstock-java-")
    finally:
        found.rmdir()
