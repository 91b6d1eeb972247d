"""The lock file of CI, .ci/lock.txt: every package that CI installs, in one version, with the hashes of its files.

uv resolves it for all platforms and for Python 3.11 and newer. It holds no address of an index, so it works with any.
`gaps` says what the file lacks for pyproject.toml, without the network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / ".ci" / "lock.txt"
EXTRAS = ("spark", "dev")  # what README's test command installs
COMMAND = "python -m tests.supply_chain lock"


def uv() -> str:
    """The path of uv, which the extra `supply-chain` brings."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise SystemExit("this command needs uv: pip install -e '.[supply-chain]'")
    return found


def requirements(*extras: str) -> list[Requirement]:
    """The ranges of pyproject.toml, with those of these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def write(*, upgrade: bool) -> int:
    """uv's exit code. What the file has already stays at its version, unless it is to be upgraded."""
    command = [uv(), "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"]
    command += [part for extra in EXTRAS for part in ("--extra", extra)]
    command += ["--generate-hashes", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    command += ["--custom-compile-command", COMMAND, "--output-file", str(LOCK)]
    if upgrade:
        command.append("--upgrade")
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode


def pins(text: str) -> list[tuple[Requirement, int]]:
    """Each package of a lock file, with how many hashes it has."""
    blocks = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*$", "", text)).splitlines()
    return [
        (Requirement(block.split("--hash=")[0].strip()), block.count("--hash=sha256:"))
        for block in blocks
        if block.strip()
    ]


def gaps(wanted: list[Requirement], text: str) -> list[str]:
    """Why CI must not install from this lock file; nothing when it may."""
    wrong = [f"an address: {line.strip()}" for line in text.splitlines() if "://" in line or line.startswith("-")]
    if wrong:
        return wrong
    versions: dict[str, str] = {}
    for pin, hashes in pins(text):
        exact = [one.version for one in pin.specifier if one.operator == "=="]
        if len(exact) != 1 or not hashes:
            wrong.append(f"{pin.name} has not one version with hashes")
        elif pin.marker is None or pin.marker.evaluate():
            versions[canonicalize_name(pin.name)] = exact[0]
    for requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        locked = versions.get(canonicalize_name(requirement.name))
        if locked is None or not requirement.specifier.contains(locked, prereleases=True):
            wrong.append(f"{requirement} is not met by {locked or 'any line'}: run {COMMAND}")
    return wrong
