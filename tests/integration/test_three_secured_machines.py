"""`penstock node format --secure` on three machines, by the steps of docs/security.md: addresses stand for machines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from penstock import Admin, Consumer, Producer
from penstock.certs.authority import Authority
from penstock.errors import SaslAuthenticationFailedError
from penstock.local_nodes.node_process import NodeProcess, wait_all_ready
from penstock.testing.ports import free_ports
from tests.support.python_nursery import quick_node_command

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
PASSWORD = "the same on all of them"
PATIENCE_S = 60

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have 127.0.0.1 alone")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """Its bootstrap address, and what makes a client the user admin."""
    root = tmp_path_factory.mktemp("machines")
    authority = Authority.create(root / "ca")
    ports = free_ports(len(HOSTS))
    voters = [f"{number}@{host}:{at.controller}" for number, (host, at) in enumerate(zip(HOSTS, ports, strict=True), 1)]
    with ExitStack() as stack:
        nodes = []
        for number, (host, at) in enumerate(zip(HOSTS, ports, strict=True), 1):
            machine = root / f"machine-{number}"
            tls = machine / "tls"
            tls.mkdir(parents=True)
            for path in (authority.node(number, [host]), root / "ca" / "ca.pem"):
                (tls / path.name).write_bytes(path.read_bytes())
                (tls / path.name).chmod(0o600)
            listeners = {"BROKER": at.broker, "INTERNAL": at.internal, "CONTROLLER": at.controller}
            config = machine / "node.toml"
            config.write_text(
                f"""node.id = {number}
process.roles = ["broker", "controller"]
listeners = {[f"{name}://{host}:{port}" for name, port in listeners.items()]}
controller.quorum.voters = {voters}
log.dirs = ["{machine}/data"]
"""
            )
            command = quick_node_command("format", "--config", str(config), "--secure", "--ca", str(tls))
            subprocess.run(command, input=f"{PASSWORD}\n", text=True, check=True, timeout=PATIENCE_S)
            node = NodeProcess(f"node {number}", config, machine / "node.log", authority.cluster_id)
            stack.callback(node.kill)
            node.spawn()
            nodes.append(node)
        wait_all_ready(nodes, PATIENCE_S)
        bootstrap = ",".join(f"{host}:{at.broker}" for host, at in zip(HOSTS, ports, strict=True))
        yield bootstrap, {"tls_ca": str(root / "ca" / "ca.pem"), "username": "admin", "password": PASSWORD}


def test_the_three_are_one_cluster_that_the_user_of_the_prompt_may_use(cluster: tuple[str, dict[str, str]]) -> None:
    bootstrap, admin = cluster
    with Admin(bootstrap, **admin) as one:
        one.create_topic("orders", 3, replication_factor=3)
    with Producer(bootstrap, **admin) as producer:
        producer.send("orders", value=b"one").result()
    with Consumer(bootstrap, group_id="g", auto_offset_reset="earliest", **admin) as consumer:
        consumer.subscribe(["orders"])
        assert consumer.poll(timeout_ms=60_000)[0].value == b"one"


def test_another_password_lets_nobody_in(cluster: tuple[str, dict[str, str]]) -> None:
    bootstrap, admin = cluster
    with pytest.raises(SaslAuthenticationFailedError), Admin(bootstrap, **{**admin, "password": "guessed"}) as one:
        one.list_topics()
