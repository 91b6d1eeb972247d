"""The oldest versions that pyproject.toml allows, tried: an environment of its own with them, and a selection of tests.

A range without a lower bound, or one whose lower bound no installation gets (it is not published, or another package
wants more), is an error: it promises what nobody tried. Packages that pyproject.toml does not name are the newest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.supply_chain.lock import EXTRAS, ROOT, pins, requirements, uv

# Every package that a node or a client loads is in use in these, without a JVM.
SELECTION = (
    "tests/unit/penstock",
    "tests/unit/client/wire",
    "tests/unit/client/options",
    "tests/unit/cli/edge",
    "tests/unit/broker/kafka",
    "tests/unit/broker/tls",
    "tests/unit/broker/coordination",
    "tests/integration/test_arrow_page.py",
    "tests/integration/test_cluster.py",
    "tests/integration/test_secured_cluster.py",
    "tests/interop/test_clients.py",
)


def untrue_bounds(wanted: list[Requirement], resolved: dict[str, str]) -> list[str]:
    """The ranges whose lower bound is missing, or is not the version that an installation of the oldest gets."""
    wrong: list[str] = []
    for requirement in wanted:
        lowest = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
        got = Version(resolved[canonicalize_name(requirement.name)])
        if not lowest:
            wrong.append(f"{requirement}: no lower bound; the oldest that can be had is {got}")
        elif got != max(lowest):
            wrong.append(f"{requirement}: the oldest that can be had is {got}")
    return wrong


def run() -> int:
    """0 when the bounds are true and the tests pass with them."""
    with tempfile.TemporaryDirectory(prefix="penstock-lower-bounds-") as folder:
        lowest = Path(folder) / "lowest.txt"
        environment = Path(folder) / "venv"
        python = environment / "bin" / "python"
        extras = [part for extra in EXTRAS for part in ("--extra", extra)]
        resolve = [uv(), "pip", "compile", "pyproject.toml", *extras, "--resolution", "lowest-direct"]
        resolve += ["--python", sys.executable, "--no-annotate", "--no-header", "--quiet", "--output-file", str(lowest)]
        subprocess.run(resolve, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found = pins(lowest.read_text(encoding="utf-8"))
        resolved = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin, _ in found}
        wrong = untrue_bounds(requirements(*EXTRAS), resolved)
        print("\n".join(wrong) or f"{len(requirements(*EXTRAS))} lower bounds can be installed", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        install = [uv(), "pip", "install", "--quiet", "--python", str(python), "--requirement", str(lowest)]
        subprocess.run(install, check=True)
        itself = [uv(), "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--editable", str(ROOT)]
        subprocess.run(itself, check=True)  # its command and its pytest plugin are there once it is installed
        variables = os.environ | {"VIRTUAL_ENV": str(environment), "PYTHONPATH": str(ROOT)}
        variables["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        tests = subprocess.run([python, "-m", "pytest", "-n", "0", *SELECTION], cwd=ROOT, env=variables)
    return 1 if wrong or tests.returncode else 0
