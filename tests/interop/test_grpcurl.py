"""grpcurl, a client that nobody here wrote: the commands of docs/grpc.md, and what secured listeners refuse it.

Skipped where grpcurl is not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.certs.authority import Authority
from penstock.testing import Cluster

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "grpc.md").read_text(encoding="utf-8")
TIMEOUT_S = 60
DESCRIBE_QUORUM = "penstock.v1.Controller/DescribeQuorum"

pytestmark = pytest.mark.skipif(shutil.which("grpcurl") is None, reason="grpcurl is not installed")


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euc", script], cwd=directory, env=os.environ, capture_output=True, text=True, timeout=TIMEOUT_S
    )


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"(?s)```{language}\n(.*?)```", PAGE))


def test_the_commands_of_the_page_are_answered(tmp_path: Path) -> None:
    with Cluster(nodes=3) as cluster:
        done = run(re.sub(r"(?m)^BOOTSTRAP=.*$", f"BOOTSTRAP={cluster.bootstrap}", blocks("bash")), tmp_path)

    assert done.returncode == 0, done.stderr
    assert "SERVING" in done.stdout
    assert '"records": "' in done.stdout


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a secured cluster of one node in `penstock-data`."""
    place = tmp_path_factory.mktemp("secured")
    with Cluster(secure=True, directory=place / "penstock-data"):
        yield place


def asked(directory: Path, certificate: Path, method: str) -> str:
    """All that grpcurl prints of a call at the listener for controllers, which wants a certificate."""
    data = directory / "penstock-data"
    config = (data / "node-0" / "node.toml").read_text(encoding="utf-8")
    address = re.findall(r'"CONTROLLER://(.*?)"', config)[0]
    done = run(
        f"grpcurl -cacert {data}/security/ca.pem -cert {certificate} -key {certificate} {address} {method} || true",
        directory,
    )
    return done.stdout + done.stderr


def test_a_stranger_gets_what_the_page_says(directory: Path) -> None:
    lines = [line for line in blocks("sh").splitlines() if "grpcurl" in line]

    assert len(lines) == 5
    for line in lines:
        command, _, said = line.rpartition("#")
        done = run(f". penstock-data/security/client.env\n{command}", directory)
        assert done.returncode == 0, line
        assert said.strip() in done.stdout + done.stderr, line


def test_a_client_with_a_certificate_is_no_node(directory: Path) -> None:
    anna = Authority.open(directory / "penstock-data" / "security").client("anna")

    assert "SERVING" in asked(directory, anna, "grpc.health.v1.Health/Check")
    assert "the certificate of this connection is of no node" in asked(directory, anna, DESCRIBE_QUORUM)


def test_a_certificate_of_another_ca_is_none(directory: Path, tmp_path: Path) -> None:
    stranger = Authority.create(tmp_path).client("anna")

    assert "Failed to dial" in asked(directory, stranger, "grpc.health.v1.Health/Check")
