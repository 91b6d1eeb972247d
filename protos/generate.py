"""Generates penstock/pb from protos/penstock/v1: `python protos/generate.py [--check]`.

The generated code is committed, so that a user needs no compiler; `--check` proves that it equals what the protos say
and exits 1 otherwise (a test runs it). The generated modules are moved from `penstock.v1` to `penstock.pb`; nothing
else about them is changed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = sorted((ROOT / "protos" / "penstock" / "v1").glob("*.proto"))
TARGET = ROOT / "penstock" / "pb"
WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def generate() -> dict[str, str]:
    """Every generated file: name to text."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = protoc.main(
            [
                "protoc",
                *(f"-I{path}" for path in (ROOT / "protos", WELL_KNOWN)),
                *(f"--{kind}_out={folder}" for kind in ("python", "pyi")),
                *map(str, PROTOS),
            ]
        )
        if outcome != 0:
            raise SystemExit(f"protoc failed with {outcome}")
        files = {}
        for path in sorted((Path(folder) / "penstock" / "v1").iterdir()):
            text = re.sub(r"\bfrom penstock\.v1 import\b", "from penstock.pb import", path.read_text())
            files[path.name] = text
        return files


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate penstock/pb from the protos.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when penstock/pb is out of date")
    check = parser.parse_args().check
    stale = []
    for name, text in generate().items():
        path = TARGET / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    if check and stale:
        print(f"penstock/pb is out of date: {', '.join(stale)}; run python protos/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
