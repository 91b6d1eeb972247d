"""A node's certificates at its start, and by `penstock node check`: held beside its log dirs, and warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.config import load_config
from broker.node.commands import check
from broker.node.commands.format import format_node
from broker.node.own_certificates import certificate_warnings, own_certificates
from broker.node.process.preflight import preflight
from penstock.errors import ConfigError
from penstock.ids import system_ids
from penstock.testing.ports import free_ports
from storage.disk.file_system import OsFileSystem
from tests.support.certificates import CLUSTER, TestCa

CA = TestCa()


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    """A node that is formatted for CLUSTER, and has its certificate."""
    ports = free_ports(1)[0]
    path = tmp_path / "1.toml"
    path.write_text(
        f"""node.id = 1
process.roles = "broker,controller"
listeners = "BROKER://127.0.0.1:{ports.broker},INTERNAL://127.0.0.1:{ports.internal},CONTROLLER://127.0.0.1:{ports.controller}"
controller.quorum.voters = "1@127.0.0.1:{ports.controller}"
log.dirs = "{tmp_path}/data"
listener.security.protocol.map = "BROKER:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL"
ssl.keystore.location = "{tmp_path}/node.pem"
ssl.truststore.location = "{tmp_path}/ca.pem"
"""
    )
    (tmp_path / "ca.pem").write_bytes(CA.pem)
    put(tmp_path, CA.node(1))
    format_node(load_config(str(path)), CLUSTER, OsFileSystem(), system_ids())
    return path


def put(directory: Path, keystore: bytes, mode: int = 0o600) -> None:
    (directory / "node.pem").write_bytes(keystore)
    (directory / "node.pem").chmod(mode)


def test_a_good_certificate_lets_a_start_pass(config_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preflight(str(config_path))
    assert check.main(str(config_path)) == 0
    assert "node 1 could start; no warnings" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("keystore", "says"),
    [
        (CA.node(2), r"node\.pem: its certificate is that of node 2 of cluster .*, but this is node 1"),
        (CA.node(1, cluster_id="B" * 22), r"is that of node 1 of cluster BBB.*, but this is node 1 of cluster"),
        (CA.node(1, days=-1), "expired on"),
        (b"", r"node\.pem: is empty"),
    ],
)
def test_a_start_and_a_check_are_refused_with_the_reason(config_path: Path, keystore: bytes, says: str) -> None:
    put(config_path.parent, keystore)
    with pytest.raises(ConfigError, match=says):
        preflight(str(config_path))
    with pytest.raises(ConfigError, match=says):
        check.main(str(config_path))


def test_a_file_that_is_not_there_is_named(config_path: Path) -> None:
    (config_path.parent / "ca.pem").unlink()
    with pytest.raises(ConfigError, match=r"ca\.pem: there is no such file"):
        preflight(str(config_path))


def test_what_ends_soon_and_a_key_that_others_may_read_are_warned_of(config_path: Path) -> None:
    put(config_path.parent, CA.node(1, days=3.5), 0o644)
    config = load_config(str(config_path))
    found = list(certificate_warnings(config, own_certificates(config)))
    keystore = config_path.parent / "node.pem"
    assert f"INTERNAL: certificates in {keystore} end in 3 days; renew them (penstock certs renew)" in found
    assert f"{keystore}: not only its owner may read this private key (mode 644); make the mode 600" in found


def test_a_key_of_another_owner_may_be_read_by_the_group_as_a_mounted_secret(
    config_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(str(config_path))

    def warnings(mode: int) -> list[str]:
        put(config_path.parent, CA.node(1), mode)
        return [one for one in certificate_warnings(config, own_certificates(config)) if "not only its owner" in one]

    assert len(warnings(0o440)) == 1
    monkeypatch.setattr("broker.node.own_certificates.os.geteuid", lambda: 10001)
    assert warnings(0o440) == [] and len(warnings(0o444)) == 1


def test_before_the_format_a_certificate_of_any_cluster_passes(config_path: Path, tmp_path: Path) -> None:
    text = config_path.read_text().replace(f"{tmp_path}/data", f"{tmp_path}/new")
    config_path.write_text(text)
    preflight(str(config_path))


def test_without_tls_no_certificate_is_read(config_path: Path, tmp_path: Path) -> None:
    config_path.write_text(config_path.read_text().replace("BROKER:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL", ""))
    (tmp_path / "node.pem").unlink()
    assert own_certificates(load_config(str(config_path))) is None
