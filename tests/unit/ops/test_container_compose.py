"""The Compose files are what their source makes, and each node in them has variables with which it starts."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys

import pytest

from broker.config.config import parse_config_file
from ops.container.compose import CLUSTER_ID, FOLDER, TLS, compose, files, scrape, text_of
from ops.container.image import FOLDER as IMAGE
from penstock.types import SecurityProtocol

CASES = [(1, False), (1, True), (3, False), (3, True)]
DEFAULTS = {"PENSTOCK_LOG_DIRS": "/var/lib/penstock/data", "PENSTOCK_METRICS_LISTENER": "0.0.0.0:9404"}


def test_the_files_are_those_of_their_source() -> None:
    for path, text in files().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m ops.container.compose"
    assert {path for path in FOLDER.iterdir() if path.is_file()} == set(files())


def test_the_variables_of_the_image_are_those_that_the_files_count_on() -> None:
    text = (IMAGE / "Containerfile").read_text(encoding="utf-8")
    assert all(f"{name}={value}" in text for name, value in DEFAULTS.items())


@pytest.mark.parametrize(("nodes", "is_secured"), CASES)
def test_each_node_is_one_that_a_start_takes(nodes: int, is_secured: bool) -> None:
    services = compose(nodes, is_secured=is_secured)["services"]
    for number in range(nodes):
        service = services[f"node-{number}"]
        config = parse_config_file("env:", b"", environ=DEFAULTS | service["environment"])
        assert config.node_id == number and len(config.controller_quorum_bootstrap_servers) == nodes
        assert config.min_insync_replicas == (2 if nodes == 3 else 1)
        assert config.advertised_listeners["HOST"].host == "localhost"
        published = {int(port.rpartition(":")[2]) for port in service["ports"]}
        assert published == {config.listeners[name].port for name in ("HOST", "HOSTKAFKA")}
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for name in config.client_listeners:
            wanted = SecurityProtocol.SASL_SSL if is_secured else SecurityProtocol.PLAINTEXT
            assert config.security_protocol(name) is wanted


@pytest.mark.parametrize(("nodes", "is_secured"), CASES)
def test_every_file_that_a_service_mounts_is_there_or_is_made_by_the_user(nodes: int, is_secured: bool) -> None:
    whole = compose(nodes, is_secured=is_secured)
    for service in whole["services"].values():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if not source.startswith("."):
                assert source in whole["volumes"]
            elif not source.startswith("./tls/"):
                assert (FOLDER / source).exists(), mount


def test_ports_on_the_machine_are_taken_once() -> None:
    services = compose(3, is_secured=True)["services"].values()
    ports = [port for service in services for port in service.get("ports", ())]
    assert len(set(ports)) == len(ports)


def test_prometheus_asks_every_node_over_tls_where_they_have_it() -> None:
    (job,) = scrape(3, is_secured=True)["scrape_configs"]
    assert job["tls_config"] == {"ca_file": f"{TLS}/ca.pem"} and len(job["static_configs"][0]["targets"]) == 3
    assert "scheme" not in scrape(1, is_secured=False)["scrape_configs"][0]


def test_the_id_of_the_cluster_is_one_that_format_takes() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", CLUSTER_ID)


def test_a_text_that_yaml_would_take_for_something_else_is_quoted() -> None:
    text = text_of({"a": "on", "b": "1", "c": "plain", "d": [{"e": ["x"], "f": {}}], "g": True})
    assert text.splitlines()[1:] == [
        *('a: "on"', 'b: "1"', "c: plain", "d:", '  - e: ["x"]', "    f: {}", "g: true"),
    ]


def test_process_one_of_the_image_ends_at_sigterm_before_it_has_loaded_anything() -> None:
    path = str(IMAGE / "first_moments.py")
    program = f"import os, runpy, signal\nme = os.getpid()\nos.getpid = lambda: 1\nrunpy.run_path({path!r})\n"
    program += "os.kill(me, signal.SIGTERM)\nsignal.pause()"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 143
    runpy.run_path(path)  # another process is left as it is
