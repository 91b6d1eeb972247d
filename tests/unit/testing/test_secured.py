"""The files of a secured local cluster: who can read them, what stays over starts, and what nodes and clients get."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509

from penstock.cli.dev import how_to_connect, secured_as_before
from penstock.errors import ConfigError
from penstock.testing import Cluster
from penstock.testing.layout import Layout, is_stored_secure, new_layout, stored_layout

SECRET = ("ca.key", "node-0.pem", "node-1.pem", "admin.password", "client.env", "kafka.properties")


def written(directory: Path, host: str | None = None) -> Layout:
    layout = stored_layout(directory, 2, None, host) or new_layout(directory, 2, None, host, is_secure=True)
    layout.write([{}, {}])
    return layout


def hosts(path: Path) -> list[str]:
    data = path.read_bytes()
    found = x509.load_pem_x509_certificate(data[data.index(b"-----BEGIN CERTIFICATE") :])
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def test_nobody_but_the_owner_can_read_a_secret(tmp_path: Path) -> None:
    secured = written(tmp_path).secured
    assert secured is not None
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in secured.directory.iterdir()}
    assert {name: modes[name] for name in SECRET} == dict.fromkeys(SECRET, 0o600)
    assert modes.keys() - set(SECRET) == {"ca.pem"}


def test_the_next_start_keeps_the_authority_and_the_password_and_knows_a_new_host(tmp_path: Path) -> None:
    secured = written(tmp_path).secured
    assert secured is not None
    kept = [path.read_bytes() for path in (secured.ca, secured.password_file)]
    assert "box.example" not in hosts(secured.directory / "node-1.pem")
    assert written(tmp_path, "box.example").is_secure
    assert [path.read_bytes() for path in (secured.ca, secured.password_file)] == kept
    assert {"box.example", "localhost", "127.0.0.1"} <= set(hosts(secured.directory / "node-1.pem"))


def test_every_listener_of_a_node_is_secured_and_the_nodes_own_by_certificates(tmp_path: Path) -> None:
    config = written(tmp_path).node_config(1)
    assert config["listener.security.protocol.map"] == [
        "BROKER:SASL_SSL",
        "KAFKA:SASL_SSL",
        "INTERNAL:SSL",
        "CONTROLLER:SSL",
    ]
    assert str(config["ssl.keystore.location"]).endswith("security/node-1.pem")


def test_a_shell_and_kafkas_tools_are_told_of_the_user(tmp_path: Path) -> None:
    layout = written(tmp_path)
    secured = layout.secured
    assert secured is not None
    password = secured.password_file.read_text(encoding="utf-8").strip()
    assert len(password) >= 20
    shell, tools = secured.client_env.read_text(encoding="utf-8"), secured.kafka_properties.read_text(encoding="utf-8")
    assert f"export PENSTOCK_BOOTSTRAP={layout.bootstrap}\n" in shell and "PENSTOCK_USERNAME=admin" in shell
    assert password not in shell and f'username="admin" password="{password}";' in tools
    message = " ".join(how_to_connect(secured))
    assert str(secured.client_env) in message and password not in message


def test_a_cluster_stays_secured_or_open(tmp_path: Path) -> None:
    open_one, secured_one = tmp_path / "open", tmp_path / "secured"
    new_layout(open_one, 1, None).write([{}])
    new_layout(secured_one, 1, None, is_secure=True).write([{}])
    assert (is_stored_secure(open_one), is_stored_secure(secured_one), is_stored_secure(tmp_path)) == (
        False,
        True,
        None,
    )
    assert secured_as_before(secured_one, secure=False) and secured_as_before(tmp_path, secure=True)
    with pytest.raises(ConfigError, match="holds a cluster that is not secured"):
        secured_as_before(open_one, secure=True)
    with pytest.raises(ConfigError, match="holds a cluster that is secured"):
        Cluster(1, directory=secured_one).planned_configs()


def test_an_open_cluster_has_none_of_it(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 1, None)
    layout.write([{}])
    assert layout.secured is None and not (tmp_path / "security").exists()
    assert not any("ssl" in key or "security" in key for key in layout.node_config(0))
