"""No core file has a secret of a node, whoever writes it."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.node.process import core_files
from tests.support.certificates import tls_config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="coredump_filter is Linux's")

DIES = """
import os, sys
from broker.node.process import core_files
if sys.argv[1] == "kept out":
    core_files.select_no_memory()
secret = bytes(reversed(b"tnemucod eht fo yek eht")) * 1_000
os.abort()
"""
SECRET = b"the key of the document" * 10
"""More than the registers hold, which a core always has."""


def core_of(tmp_path: Path, how: str) -> bytes:
    """The core file of a process that dies with a secret."""
    if Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii").strip() != "core":
        pytest.skip("core files go elsewhere on this machine")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("this process may write no core file")
    died = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh", sys.executable, "-c", DIES, how],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(core_files.__file__).parents[3])},
        check=False,
    )
    assert died.returncode == -signal.SIGABRT
    return b"".join(path.read_bytes() for path in tmp_path.glob("core*"))


def test_a_core_of_a_node_with_secrets_has_no_memory(tmp_path: Path) -> None:
    core = core_of(tmp_path, "kept out")
    assert core.startswith(b"\x7fELF") and SECRET not in core


@pytest.mark.parametrize(
    ("protocols", "is_kept_out"),
    [([], False), (["BROKER:SASL_PLAINTEXT"], True), (["KAFKA:SSL"], True), (["CONTROLLER:SSL"], True)],
)
def test_cores_are_left_to_the_machine_where_a_node_has_no_secret(
    protocols: list[str], is_kept_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    monkeypatch.setattr(core_files.resource, "setrlimit", lambda *limit: done.append(limit))
    monkeypatch.setattr(core_files, "select_no_memory", lambda: done.append("no memory"))
    core_files.keep_secrets_out_of_cores(tls_config(**{"listener.security.protocol.map": protocols}))
    assert done == ([(resource.RLIMIT_CORE, (0, 0)), "no memory"] if is_kept_out else [])


def test_a_core_has_all_memory_otherwise(tmp_path: Path) -> None:
    assert SECRET in core_of(tmp_path, "as it is")
