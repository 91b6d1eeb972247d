"""A bundle of a real, secured node: what a maintainer asks for is there, and no secret and no record; a node that hangs
or is not there keeps nothing else from it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, Producer
from penstock.debug.archive import Bundle, read_bundle
from penstock.debug.parts import CLUSTER_PARTS
from penstock.testing import Cluster
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

RECORD = b"the-record-of-anna"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True) as running:
        with Admin(running.bootstrap, **running.client_options) as admin:
            admin.create_topic("orders", 2, 1)
        with Producer(running.bootstrap, **running.client_options) as producer:
            producer.send("orders", value=RECORD, key=RECORD)
            producer.flush()
        yield running


@pytest.fixture
def as_admin(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.client_options.items():
        monkeypatch.setenv(f"PENSTOCK_{name.upper()}", str(value))


def made(cluster: Cluster, path: Path, *options: object) -> tuple[Bundle, dict[str, Any]]:
    ended = penstock("debug", "bundle", "--output", path, "--json", *options, bootstrap=cluster.bootstrap)
    assert ended.returncode == 0, ended.stderr
    return read_bundle(path), json.loads(ended.stdout)


def secrets_of(cluster: Cluster) -> list[bytes]:
    """The lines of every key, password and token file of the cluster, but those of certificates."""
    assert cluster.secured is not None
    found = Path(cluster.client_options["password_file"]).read_bytes().splitlines()
    for path in cluster.secured.directory.rglob("*"):
        text = path.read_bytes() if path.is_file() else b""
        for block in text.split(b"-----BEGIN ")[1:]:
            if b"PRIVATE KEY-----" in block.partition(b"\n")[0]:
                found += [line for line in block.partition(b"-----END")[0].splitlines()[1:] if len(line) > 16]
    return found


def test_a_bundle_of_a_node_has_what_it_does_and_no_secret(cluster: Cluster, as_admin: None, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    read, told = made(cluster, path, "--no-cluster", "--config", cluster.config_path(0), "--log", cluster.log_path(0))
    assert [line for line in told["missing"] if "journal" not in line] == []
    assert read.json("nodes/0/check.json")["state"] == "runs, and could start again"
    assert f"Pid:\t{cluster.pid(0)}".encode() in read.files["nodes/0/process.txt"]
    assert b"orders-0/00000000000000000000.log" in read.files["nodes/0/files.txt"]
    assert b"penstock_under_replicated_partitions" in read.files["nodes/0/metrics.txt"]
    assert b'"orders"' in read.files["nodes/0/metadata.jsonl"]
    assert read.files["logs/0-node.log"].count(b"(most recent call first)") >= 3, "the stacks of its threads"
    has_no_secret(read, cluster)

    shown = penstock("debug", "show", path)
    assert b"node 0 (penstock" in shown.stdout and b"nodes/0/metrics.txt" in shown.stdout
    part = penstock("debug", "show", path, "nodes/0/check.json")
    assert json.loads(part.stdout)["node_id"] == 0
    unknown = penstock("debug", "show", path, "nodes/0/chek.json")
    assert unknown.returncode == 2 and b"did you mean 'nodes/0/check.json'" in unknown.stderr
    again = penstock("debug", "bundle", "--output", path, "--no-cluster", "--log", cluster.log_path(0))
    assert again.returncode == 1 and b"there is a file already" in again.stderr


def has_no_secret(read: Bundle, cluster: Cluster) -> None:
    secrets = secrets_of(cluster)
    assert len(secrets) > 5
    for name, data in read.files.items():
        assert not [secret for secret in (RECORD, *secrets) if secret in data], name


@pytest.mark.long
def test_a_bundle_of_a_cluster_has_all_parts_and_says_which_rights_are_missing(
    cluster: Cluster, as_admin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is a process of its own, which imports the client: ten seconds of a processor for all of them."""
    read, told = made(cluster, tmp_path / "b.tar.gz")
    assert told["missing"] == []
    assert {part.path for part in CLUSTER_PARTS} <= read.files.keys()
    assert read.json("cluster/health.json")["status"] == "healthy"
    assert b"[topics.orders]" in read.files["cluster/declared.toml"]
    has_no_secret(read, cluster)
    assert b"health: healthy" in penstock("debug", "show", tmp_path / "b.tar.gz").stdout

    password = tmp_path / "support.secret"
    password.write_text("secret-of-support")
    penstock("users", "create", "support", "--new-password-file", password, bootstrap=cluster.bootstrap)
    penstock("acls", "create", "User:support", "--role", "monitor", bootstrap=cluster.bootstrap)
    monkeypatch.setenv("PENSTOCK_USERNAME", "support")
    monkeypatch.setenv("PENSTOCK_PASSWORD_FILE", str(password))
    read, told = made(cluster, tmp_path / "c.tar.gz")
    missing = dict(line.split(": ", 1) for line in told["missing"])
    assert "User:support may not Read on topic" in missing.pop("cluster/hanging.json")
    assert missing.keys() == {"cluster/broker-default.json", "cluster/broker-0.json"}
    assert all("User:support may not DescribeConfigs on the cluster" in why for why in missing.values())
    assert b"secret-of-support" not in b"".join(read.files.values())


@pytest.mark.long
def test_nodes_that_hang_and_clusters_that_are_gone_end_in_a_bundle(
    cluster: Cluster, as_admin: None, tmp_path: Path
) -> None:
    with cluster.paused(0):
        began = time.monotonic()
        read, told = made(cluster, tmp_path / "h.tar.gz", "--config", cluster.config_path(0), "--timeout", 3)
        assert time.monotonic() - began < 60
        assert len(told["missing"]) >= len(CLUSTER_PARTS)
        assert {"nodes/0/node.toml", "nodes/0/files.txt", "nodes/0/process.txt"} <= read.files.keys()
    with cluster.down(0):
        read, told = made(cluster, tmp_path / "d.tar.gz", "--config", cluster.config_path(0), "--timeout", 60)
        assert any(line.startswith("nodes/0/process.txt: no process") for line in told["missing"])
        assert b'"orders"' in read.files["nodes/0/metadata.jsonl"], "by its files"


def test_what_cannot_be_collected_is_refused(tmp_path: Path) -> None:
    nothing = penstock("debug", "bundle", "--no-cluster")
    assert nothing.returncode == 2 and b"nothing is left to collect" in nothing.stderr
    gone = penstock("debug", "bundle", "--config", tmp_path / "gone.toml")
    assert gone.returncode == 2 and b"No such file" in gone.stderr
    (tmp_path / "n.toml").write_text("node.id = 1")
    twice = penstock("debug", "bundle", "--config", tmp_path / "n.toml", "--config", tmp_path / "n.toml")
    assert twice.returncode == 2 and b"two files of the same node.id" in twice.stderr
    log = tmp_path / "a.log"
    log.write_text("a line")
    nowhere = penstock("debug", "bundle", "--no-cluster", "--log", log, "--output", tmp_path / "no" / "b.tar.gz")
    assert nowhere.returncode == 1 and b"no/b.tar.gz" in nowhere.stderr
    no_bundle = penstock("debug", "show", log)
    assert no_bundle.returncode == 2 and b"no bundle" in no_bundle.stderr


def test_a_node_writes_its_stacks_when_it_is_asked(cluster: Cluster) -> None:
    before = cluster.log_path(0).read_bytes().count(b"Current thread")
    os.kill(cluster.pid(0), signal.SIGQUIT)
    wait_until(lambda: cluster.log_path(0).read_bytes().count(b"Current thread") > before)
    assert cluster.is_running(0)
