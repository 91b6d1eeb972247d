"""The command as a whole: exit codes, what it loads, and one line for every expected error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SERVER_PACKAGES = ("raft", "metadata", "storage", "broker")
HEAVY = ("grpc", "google.protobuf", "numpy", "pyarrow", "penstock.client", "pyspark")


def penstock(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], input=stdin, capture_output=True, check=False)


def test_the_command_line_loads_neither_the_servers_nor_grpc() -> None:
    program = "import sys, json, penstock.cli.main; print(json.dumps(list(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert not [name for name in (*SERVER_PACKAGES, *HEAVY) if name in loaded]


def test_help_and_version_exit_0() -> None:
    assert b"produce" in penstock("--help").stdout
    version = penstock("--version")
    assert version.returncode == 0 and version.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    "arguments", [("nope",), ("topics", "create"), ("topics", "create", "x", "-p", "many"), ("dev", "--nodes", "10")]
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...]) -> None:
    assert penstock(*arguments).returncode == 2


def test_a_config_pair_without_equals_is_named() -> None:
    result = penstock("topics", "create", "orders", "-c", "retention.ms")
    assert result.returncode == 2
    assert result.stderr == b"penstock: -c retention.ms: must be key=value, like retention.ms=86400000\n"


def test_a_config_pair_given_twice_is_named() -> None:
    result = penstock("topics", "create", "orders", "-c", "a=1", "-c", "a=2")
    assert result.returncode == 2 and b"a is given twice" in result.stderr


def test_node_start_becomes_the_node_and_passes_on_its_exit_code(tmp_path: Path) -> None:
    result = penstock("node", "format", "--config", str(tmp_path / "missing.toml"))
    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1 and b"no such configuration file" in result.stderr


def test_dev_in_a_place_that_cannot_be_written_exits_2_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = penstock("dev", "--data", str(tmp_path / "file" / "data"))
    assert result.returncode == 2
    assert result.stderr.startswith(b"penstock: ") and result.stderr.count(b"\n") == 1
