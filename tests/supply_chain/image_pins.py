"""The packages of the container image, each a block of .ci/lock.txt: `python -m tests.supply_chain image-pins`.

`runtime.txt` has what pyproject.toml's dependencies and `console` bring, and `build.txt` what builds the wheel and
writes the bill of materials. What brings what is read from the installed distributions, so the command runs in an
environment of .ci/lock.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply_chain.lock import LOCK, ROOT, requirements
from tests.supply_chain.sbom import closure

FOLDER = ROOT / "ops" / "container"
EXTRAS = ("console",)
BUILD = ("hatchling", "cyclonedx-python-lib", "packaging")
HEAD = "# Blocks of .ci/lock.txt, by python -m tests.supply_chain image-pins; do not edit by hand.\n"


def wanted() -> dict[Path, set[str]]:
    """The distributions of each file, by their canonical names."""
    return {
        FOLDER / "runtime.txt": _closure(requirements(*EXTRAS)),
        FOLDER / "build.txt": _closure([Requirement(name) for name in BUILD]),
    }


def _closure(roots: Iterable[Requirement]) -> set[str]:
    return {name for root in roots for name in closure(canonicalize_name(root.name), list(root.extras))}


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The name of each package of a lock file, and its lines."""
    for block in re.findall(r"(?m)^[A-Za-z0-9].*\n(?:    .*\n)*", text):
        yield canonicalize_name(re.split(r"[=\[ ;]", block, maxsplit=1)[0]), block


def subset(text: str, names: Iterable[str]) -> str:
    """The lock file with these packages alone; KeyError for one that it lacks."""
    found = dict(blocks(text))
    return HEAD + "".join(found[name] for name in sorted(names))


def texts() -> dict[Path, str]:
    """The files as they should be."""
    lock = LOCK.read_text(encoding="utf-8")
    return {path: subset(lock, names) for path, names in wanted().items()}


def write() -> int:
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
    return 0
