"""The wheel, built twice from the same files in two places: the same bytes, or it is not what the source says.

The second place has other times of its files, another umask and another time zone. SOURCE_DATE_EPOCH is the time of
all files in the wheel, and hatchling's own constant where it is not set.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.supply_chain.lock import ROOT

SOURCES = ("penstock", "raft", "metadata", "broker", "storage", "ops")
FILES = ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "pyspark_penstock.py")
OTHER_TIME = 1_000_000_000


def copy(target: Path) -> None:
    """All that the wheel is built from, with other times."""
    target.mkdir()
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, target / file)
    for path in target.rglob("*"):
        os.utime(path, (OTHER_TIME, OTHER_TIME))


def build(source: Path, target: Path, umask: int = 0o022, **variables: str) -> Path:
    """The wheel of a source tree, built with the packages of this environment."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(source)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, umask=umask)
    if done.returncode:
        raise RuntimeError(f"the wheel could not be built: {done.stdout}{done.stderr}")
    return next(target.glob("*.whl"))


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build_elsewhere(folder: Path) -> Path:
    """The wheel of a copy of the same files, on what looks like another machine."""
    copy(folder / "source")
    return build(folder / "source", folder / "dist", umask=0o077, TZ="Pacific/Auckland")


def compare() -> int:
    """0 when both builds have the same bytes."""
    with tempfile.TemporaryDirectory(prefix="penstock-wheel-") as folder:
        here = build(ROOT, Path(folder) / "here")
        there = build_elsewhere(Path(folder))
        print(f"{sha256(here)}  {here.name}, built here\n{sha256(there)}  {there.name}, built from a copy")
        return 0 if (here.name, sha256(here)) == (there.name, sha256(there)) else 1
