"""Installs clients for the matrix: a folder outside the repository for each client and version, made once.

A folder is `~/.cache/penstock-interop/NAME`, or below PENSTOCK_INTEROP_CACHE. One process at a time makes it, and
others wait for it. It counts as made when the file `made` in it has the recipe, so that an install that was cut short,
or of another recipe, begins anew. PENSTOCK_INTEROP_INSTALL=no forbids installing. Which client needs what is in
clients.py.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DRIVERS = ROOT / "tests" / "interop" / "drivers"
INSTALL_S = 300
REASON_MAX = 200
ERROR = re.compile(r"(?i)(?:^|[\s\[:])(?:npm )?err(?:or)?\b|: undefined")
OLDER_PYTHONS = ("3.10",)
"""Versions of Python for clients whose wheels end before the one that runs the tests."""


class MissingError(Exception):
    """The client cannot be had here; the text says why."""


@dataclass(frozen=True)
class Command:
    """The driver's command line, but for the bootstrap address."""

    words: list[str]
    version: str
    folder: Path = ROOT


def cache() -> Path:
    return Path(os.environ.get("PENSTOCK_INTEROP_CACHE", Path.home() / ".cache" / "penstock-interop"))


def made(name: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """The client's folder: `make` fills an empty one, unless it was filled by the same recipe before."""
    folder = cache() / name
    with _locked(folder):
        done = folder / "made"
        if not done.is_file() or done.read_text(encoding="utf-8") != recipe:
            if os.environ.get("PENSTOCK_INTEROP_INSTALL") == "no":
                raise MissingError(f"{name} is not in {folder.parent}, and PENSTOCK_INTEROP_INSTALL is 'no'")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            done.write_text(recipe, encoding="utf-8")
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(words: list[str], folder: Path, missing: str) -> None:
    """Installs or builds something. When that fails, its last line, or its last line with an error, is the reason."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise MissingError(f"{missing} within {INSTALL_S} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        errors = [line for line in said if ERROR.search(line)]
        raise MissingError(f"{missing}: {(errors or said)[-1].strip()[:REASON_MAX]}")


def tool(name: str, *elsewhere: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *elsewhere]))
    if found is None:
        raise MissingError(f"{name} is not installed")
    return found


def python_with(package: str, version: str, beside: Sequence[str]) -> Path:
    """The Python of a virtual environment with this version of the package: of wheels alone, so nothing is compiled."""
    wanted = f"{package}=={version}"

    def make(folder: Path) -> None:
        reasons = []
        for python in _pythons():
            run([python, "-m", "venv", "--clear", str(folder)], ROOT, "no virtual environment was made")
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            try:
                return run([*pip, "--only-binary", ":all:", wanted, *beside], folder, f"{wanted} was not installed")
            except MissingError as error:
                reasons.append(error)
        raise reasons[0]

    return made(f"python-{package}-{version}", " ".join([wanted, *beside]), make) / "bin" / "python"


def _pythons() -> list[str]:
    """This one, and the older ones that pyenv has or that are on the PATH."""
    found = [sys.executable]
    for version in OLDER_PYTHONS:
        folders = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*"))
        places = os.pathsep.join([*(str(folder / "bin") for folder in folders), os.environ["PATH"]])
        if (python := shutil.which(f"python{version}", path=places)) is not None:
            found.append(python)
    return found
