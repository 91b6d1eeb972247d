"""Makes the generated Go code: `python examples/go/generate.py`, from the root, with Penstock's `dev` extra and Go.

From protos/: `penstockpb/*.pb.go`, by protoc of grpcio-tools with Go's two plugins, which `go install` brings into a
temporary folder. From `penstock/errors.py`: `penstock/codes.go`, the table of error codes.

The generated code is committed, so that a user needs no protoc; tests/unit/test_go_example.py proves without Go that
it is what the protos and the table say.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROTOS = (
    "acls",
    "broker",
    "common",
    "configs",
    "elections",
    "features",
    "groups",
    "log_dirs",
    "quotas",
    "reassignments",
    "transactions",
    "users",
    "voters",
)
"""The files that a client needs; the others are spoken between nodes."""
PACKAGE = "penstock.example/go/penstockpb"
PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1",
)
CODES_HEAD = """\
// Made from penstock/errors.py by generate.py; do not edit.

package penstock

var codeTable = map[int32]codeMeaning{
"""


def codes_file() -> str:
    """`penstock/codes.go`, whole."""
    from penstock.client.cluster.error_meaning import LEADERSHIP_ERRORS
    from penstock.errors import ERRORS

    rows = [
        (
            f"{code}:",
            f'{{"{error.kafka_name}", {_go(error.retriable)}, {_go(error.nothing_written)}, '
            f"{_go(error in LEADERSHIP_ERRORS)}}},",
        )
        for code, error in sorted(ERRORS.items())
    ]
    width = max(len(key) for key, _ in rows)
    return CODES_HEAD + "".join(f"\t{key.ljust(width)} {meaning}\n" for key, meaning in rows) + "}\n"


def _go(flag: bool) -> str:
    return "true" if flag else "false"


def messages() -> None:
    """Write `penstockpb/*.pb.go`."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory() as tools:
        for plugin in PLUGINS:
            subprocess.run(["go", "install", plugin], check=True, env={**os.environ, "GOBIN": tools})
        os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
        places = [f"M penstock/v1/{name}.proto={PACKAGE}".replace(" ", "") for name in PROTOS]
        outcome = protoc.main(
            [
                "protoc",
                f"-I{ROOT / 'protos'}",
                *(f"--{kind}_out={HERE / 'penstockpb'}" for kind in ("go", "go-grpc")),
                *(f"--{kind}_opt={option}" for kind in ("go", "go-grpc") for option in (f"module={PACKAGE}", *places)),
                *(str(ROOT / "protos" / "penstock" / "v1" / f"{name}.proto") for name in PROTOS),
            ]
        )
    if outcome != 0:
        raise SystemExit(f"protoc failed with {outcome}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    (HERE / "penstock" / "codes.go").write_text(codes_file(), encoding="utf-8")
    messages()
