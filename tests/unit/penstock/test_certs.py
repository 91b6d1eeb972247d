"""The private CA of a cluster: what it signs is taken by TLS, its keys stay secret, and mistakes are one line."""

from __future__ import annotations

import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from penstock.certs.authority import Authority, names_of, read_certificates
from penstock.certs.node_identity import NodeIdentity
from penstock.cli.main import app
from penstock.errors import ConfigError
from tests.support.certificates import TestCa

CLUSTER = "WuRhsPT0Qm-S_0lqnVZ80A"
RUN = CliRunner()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "certs", CLUSTER)


def test_files_with_a_private_key_are_their_owners_alone(ca: Authority) -> None:
    before = os.umask(0)
    try:
        paths = [ca.node(1, ["localhost"]), ca.client("anna"), ca.directory / "ca.key"]
    finally:
        os.umask(before)
    assert [mode(path) for path in paths] == [0o600] * 3 and mode(ca.directory) == 0o700
    assert mode(ca.directory / "ca.pem") == 0o644
    assert b"PRIVATE" not in (ca.directory / "ca.pem").read_bytes()


def test_the_cluster_is_in_the_ca_and_the_node_in_its_certificate(ca: Authority) -> None:
    assert Authority.open(ca.directory).cluster_id == CLUSTER
    identity = NodeIdentity(CLUSTER, 7)
    path = ca.node(7, ["node-7.example.com", "10.0.0.7", "[2001:db8::7]", "10.0.0.7"])
    (found,) = read_certificates(path)
    assert names_of(found) == [identity.uri, identity.dns_name, "node-7.example.com", "10.0.0.7", "2001:db8::7"]


def test_a_new_cluster_has_a_new_id(tmp_path: Path) -> None:
    ids = {Authority.create(tmp_path / name).cluster_id for name in ("a", "b")}
    assert len(ids) == 2


def test_tls_takes_what_it_signs_a_node_for_a_server_and_a_client_for_none(ca: Authority) -> None:
    node, client = ca.node(1, ["localhost"]), ca.client("anna")
    assert _handshake(ca, node, client) == ("TLSv1.3", "anna")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        _handshake(ca, client, node)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(ca, node, client, "example.com")


def _handshake(ca: Authority, server: Path, client: Path, host: str = "localhost") -> tuple[str | None, str]:
    """In memory; the version, and the client as the server sees it."""
    there = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ca.directory / "ca.pem"))
    there.load_cert_chain(server)
    there.verify_mode = ssl.CERT_REQUIRED
    here = ssl.create_default_context(cafile=str(ca.directory / "ca.pem"))
    here.load_cert_chain(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        here.wrap_bio(to_client, to_server, server_hostname=host),
        there.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject = ends[1].getpeercert()["subject"]  # type: ignore[index]
    return ends[0].version(), subject[0][0][1]  # type: ignore[return-value]


def test_a_renewed_file_has_a_new_key_and_the_same_names_and_mode(ca: Authority) -> None:
    path = ca.node(1, ["localhost"], days=10)
    path.chmod(0o640)
    before, (old,) = path.read_bytes(), read_certificates(path)
    ends = ca.renew(path, days=400)
    (new,) = read_certificates(path)
    assert names_of(new) == names_of(old) and new.subject == old.subject
    assert new.public_key() != old.public_key() and new.serial_number != old.serial_number
    assert abs(ends - datetime.now(UTC) - timedelta(days=400)) < timedelta(minutes=1)
    assert mode(path) == 0o640 and before != path.read_bytes()
    assert sorted(found.name for found in ca.directory.iterdir()) == ["ca.key", "ca.pem", "node-1.pem"]


def test_nothing_lasts_longer_than_the_ca(tmp_path: Path) -> None:
    ca = Authority.create(tmp_path, CLUSTER, days=30)
    (found,) = read_certificates(ca.client("anna", days=365))
    assert found.not_valid_after_utc == ca.not_after


def test_a_renewal_that_fails_leaves_the_old_file(ca: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ca.node(1, ["localhost"])
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError, match="cannot be written \\(No space left on device\\)"):
            ca.renew(path)
    assert path.read_bytes() == before
    assert sorted(found.name for found in ca.directory.iterdir()) == ["ca.key", "ca.pem", "node-1.pem"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["init"], "ca.pem: there is a CA already; give another directory with --dir"),
        (["init", "--dir", "new", "--cluster-id", "x"], "a cluster id has 22 letters"),
        (["init", "--dir", "ca.pem/x"], "cannot be"),
        (["node", "1", "--host", "localhost"], "node-1.pem: is there already; `penstock certs renew"),
        (["node", "2", "--host", "a b"], "'a b': is neither the name of a host nor an address"),
        (["node", "2", "--host", "node:9092"], "give one without port"),
        (["node", "2", "--host", f"*.{CLUSTER.lower()}.penstock"], "names that end in .penstock are those by which"),
        (["node", "2", "--host", f"node-1.{CLUSTER.lower()}.Penstock."], "a node gets its own by its id"),
        (["node", "2", "--host", "*.penstock"], "names that end in .penstock"),
        (["node", "2", "--host", "a.*.*"], "a * stands for the first part of a name alone"),
        (["node", "2", "--host", "*.*.*"], "a * stands for the first part of a name alone"),
        (["node", "2", "--host", ""], "is neither the name of a host"),
        (
            ["node", "2", "--host", "a", "--dir", "none"],
            "none/ca.pem: no such file; make a CA with `penstock certs init`",
        ),
        (["client", ""], "a client's name has 1 to 64 printable characters"),
        (["client", "../x"], "a client's name has 1 to 64 printable characters"),
        (["client", "a\nb"], "a client's name has 1 to 64 printable characters"),
        (["client", "x" * 65], "a client's name has 1 to 64 printable characters"),
        (["renew", "nothing.pem"], "nothing.pem: no such file"),
        (["renew", "strange.pem"], "was signed by CN=Test CA, and not by the CA in"),
        (["renew", "ca.key"], "ca.key: has no certificate that can be read"),
        (["show", "nothing.pem"], "nothing.pem: no such file"),
        (["show", "."], "cannot be read (Is a directory)"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Authority.create(tmp_path, CLUSTER).node(1, ["localhost"])
    (tmp_path / "strange.pem").write_bytes(TestCa().node(1))
    more = [] if "--dir" in arguments or arguments[0] == "show" else ["--dir", "."]
    found = RUN.invoke(app, ["certs", *arguments, *more])
    assert isinstance(found.exception, ConfigError), found
    assert says in str(found.exception) and "\n" not in str(found.exception)


def test_numbers_out_of_range_are_refused_by_the_library_too(ca: Authority) -> None:
    for days in (0, -1, 99_999):
        with pytest.raises(ConfigError, match="days: must be from 1 to 36500"):
            ca.client("anna", days)
    for node_id in (-1, 2**31):
        with pytest.raises(ConfigError, match="must be from 0 to 2147483647"):
            ca.node(node_id, ["a"])
    with pytest.raises(ConfigError, match="a node needs the hosts"):
        ca.node(1, [])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("ca.key", b"x", "its CA is damaged"),
        ("ca.pem", b"x", "its CA is damaged"),
        ("ca.pem", TestCa().pem, "ca.key is not the key of ca.pem"),
    ],
)
def test_a_ca_that_is_damaged_is_not_used(ca: Authority, name: str, content: bytes, says: str) -> None:
    (ca.directory / name).write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        Authority.open(ca.directory)


def test_the_commands_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        return RUN.invoke(app, ["certs", *arguments], catch_exceptions=False)

    made = run("init", "--cluster-id", CLUSTER)
    assert made.stdout.splitlines()[0] == CLUSTER
    assert run("node", "1", "--host", "localhost", "--host", "127.0.0.1").stdout == "penstock-certs/node-1.pem\n"
    assert run("client", "anna", "--days", "30").stdout == "penstock-certs/client-anna.pem\n"
    rows = json.loads(run("show", "--json").stdout)
    assert [(row["file"], row["owner"], row["days_left"]) for row in rows] == [
        ("penstock-certs/ca.pem", f"CN=Penstock CA,OU={CLUSTER},O=Penstock", 3_649),
        ("penstock-certs/node-1.pem", "CN=node-1", 364),
        ("penstock-certs/client-anna.pem", "CN=anna", 29),
    ]
    assert rows[1]["names"][0] == f"penstock://{CLUSTER}/node/1" and rows[2]["names"] == []
    renewed = run("renew", "--days", "90").stdout.splitlines()
    assert [line.split("\t")[0] for line in renewed] == [row["file"] for row in rows[1:]]
    one = json.loads(run("show", "penstock-certs/node-1.pem", "--json").stdout)
    assert one[0]["days_left"] == 89
    assert run("show").stdout.splitlines()[0] == "file\towner\tnames\tends\tdays_left"
