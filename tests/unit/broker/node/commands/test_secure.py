"""`penstock node format --secure`: what it makes, that it keeps what is there, and what it refuses before it writes."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config.config import load_config
from broker.config.config_file import config_values
from broker.node.commands import secure
from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions
from broker.node.own_certificates import own_certificates
from broker.quorum.bootstrap_users import read_bootstrap_users
from broker.quorum.first_voters import read_first_voters
from metadata.scram import credential_of
from penstock.certs.authority import Authority, names_of, read_certificates
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.testing.layout import new_layout
from raft.voters import NO_VOTERS
from storage.disk.file_names import BOOTSTRAP_USERS
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties

KEYS = 'listener.security.protocol.map = "BROKER:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL"\n'
SHA_256, _ = ScramMechanism
OTHER_CLUSTER = "WuRhsPT0Qm-S_0lqnVZ80A"


class Machine:
    """A directory with a node's configuration and its certificates."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.ca = directory, directory / "certs"
        self.config, self.data = directory / "node.toml", directory / "data"

    def write(
        self,
        more: str = "",
        node_id: int = 1,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        roles: str = "",
        *,
        is_dynamic: bool = False,
    ) -> None:
        self.directory.mkdir(exist_ok=True)
        voters = ",".join(f"{number}@{host}:9193" for number, host in enumerate(hosts, 1))
        servers = ",".join(f"{host}:9193" for host in hosts)
        quorum = f'bootstrap.servers = "{servers}"' if is_dynamic else f'voters = "{voters}"'
        own = hosts[min(node_id, len(hosts)) - 1]
        listeners = f"BROKER://{own}:9192,INTERNAL://{own}:9194"
        self.config.write_text(
            f"""# node {node_id}
node.id = {node_id}
process.roles = "{roles or "broker,controller"}"
listeners = "{listeners if roles else f"{listeners},CONTROLLER://{own}:9193"}"
{f"controller.quorum.{quorum}"}
log.dirs = "{self.data}"
{more}"""
        )

    def format(
        self, *add_scram: str, cluster_id: str = "", rejoin: bool = False, quorum: QuorumOptions = NO_OPTIONS
    ) -> int:
        return secure.main(str(self.config), cluster_id, rejoin, add_scram, str(self.ca), quorum)

    def values(self) -> dict[str, object]:
        return config_values(str(self.config), self.config.read_bytes())

    def cluster_id(self) -> str:
        found = read_meta_properties(OsFileSystem(), str(self.data))
        assert found is not None
        return found.cluster_id

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.directory.rglob("*") if path.is_file()}

    def users(self) -> dict[str, ScramCredential]:
        found = read_bootstrap_users(OsFileSystem(), str(self.data))
        return {f"{user.name} {user.mechanism}": credential_of(user) for user in found}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "one")
    made.write()
    return made


def test_one_command_makes_all_that_a_secured_node_needs(machine: Machine) -> None:
    assert machine.format() == 0
    config = load_config(str(machine.config))
    assert all(config.security_protocol(name).is_tls for name in config.listeners)
    assert config.super_user_principals == ("User:admin",) and config.authorizer_class_name
    certificates = own_certificates(config)  # which refuses one of another cluster than the log dirs'
    assert certificates is not None and machine.cluster_id() == Authority.open(machine.ca).cluster_id
    assert {"127.0.0.1", "localhost"} <= set(names_of(read_certificates(machine.ca / "node-1.pem")[0]))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in machine.ca.iterdir()}
    assert modes.pop("ca.pem") == 0o644 and set(modes.values()) == {0o600}
    password = (machine.ca / "admin.password").read_text().strip()
    assert all(
        user == ScramCredential.of_password(user.mechanism, password, user.salt, user.iterations)
        for user in machine.users().values()
    )
    assert len(machine.users()) == len(ScramMechanism)


def test_the_keys_are_those_of_a_local_secured_cluster(machine: Machine, tmp_path: Path) -> None:
    machine.format()
    local = new_layout(tmp_path, 1, None, is_secure=True).node_config(0)
    names = [key for key in local if key.startswith(("ssl.", "listener.security", "authorizer", "super"))]
    own = machine.values()
    assert len(names) == 5 and set(names) <= set(own)
    same = ("authorizer.class.name", "super.users")
    assert {name: own[name] for name in same} == {name: local[name] for name in same}


def test_said_again_it_changes_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.format()
    before = machine.files()
    assert machine.format() == 0
    assert machine.files() == before
    assert "is secured and formatted already; nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize("reached", ["CA", "certificate", "configuration"])
def test_after_an_interruption_it_goes_on_and_keeps_every_key(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, reached: str
) -> None:
    step = {"CA": "_hosts", "certificate": "write_file", "configuration": "format_and_report"}[reached]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(secure, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            machine.format()
    kept = {path: data for path, data in machine.files().items() if path != str(machine.config)}
    assert machine.format() == 0
    assert kept.items() <= machine.files().items()
    assert own_certificates(load_config(str(machine.config))) is not None


@pytest.mark.parametrize("end", ["[log]\nsegment.bytes = 1048576\n", "log.segment.bytes = 1048576"])
def test_a_file_keeps_its_keys_its_tables_and_its_mode(machine: Machine, end: str) -> None:
    machine.write(end)
    machine.config.chmod(0o640)
    before = machine.config.read_text()
    machine.format()
    assert before in machine.config.read_text()
    assert load_config(str(machine.config)).log_segment_bytes == 1048576
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o640


def test_keys_that_are_there_are_kept(machine: Machine, tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "elsewhere")
    keystore = authority.node(1, ["127.0.0.1"])
    machine.write(f'ssl.keystore.location = "{keystore}"\nssl.truststore.location = "{keystore.parent}/ca.pem"\n{KEYS}')
    machine.format("SCRAM-SHA-256=[name=ops,password=secret]")
    assert machine.values()["super.users"] == "User:ops"
    assert machine.values()["ssl.keystore.location"] == str(keystore)
    assert machine.cluster_id() == authority.cluster_id
    assert list(machine.users()) == [f"ops {SHA_256.value}"] and not machine.ca.exists()


def test_metrics_that_other_machines_reach_get_tls(machine: Machine) -> None:
    machine.write('metrics.listener = "0.0.0.0:9404"')
    machine.format()
    assert "METRICS" in load_config(str(machine.config)).tls_listeners


def test_three_machines_have_one_ca_which_is_on_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    authority = Authority.create(tmp_path / "ca")
    machines = [Machine(tmp_path / f"machine-{number}") for number in (1, 2, 3, 4)]
    for number, machine in enumerate(machines, 1):
        machine.write(node_id=number, hosts=hosts, roles="broker" if number == 4 else "")
        machine.ca.mkdir()
        for path in (authority.node(number, ["10.0.0.1"]), authority.directory / "ca.pem"):
            (machine.ca / path.name).write_bytes(path.read_bytes())
        monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
        assert machine.format() == 0
        assert machine.cluster_id() == authority.cluster_id
        assert sorted(path.name for path in machine.ca.iterdir()) == ["ca.pem", f"node-{number}.pem"]
    for machine in machines[:3]:
        assert all(
            user == ScramCredential.of_password(user.mechanism, "secret", user.salt, user.iterations)
            for user in machine.users().values()
        )
        assert len(machine.users()) == len(ScramMechanism), "asked once, for each mechanism"
    assert not (machines[3].data / BOOTSTRAP_USERS).exists(), "a broker has no users to begin with"


def test_a_secured_controller_begins_a_quorum_whose_voters_change_alone(machine: Machine) -> None:
    machine.write(is_dynamic=True)
    before = machine.files()
    with pytest.raises(ConfigError, match="must know how its quorum begins"):
        machine.format()
    assert machine.files() == before
    assert machine.format(quorum=QuorumOptions(standalone=True)) == 0
    voters = read_first_voters(OsFileSystem(), str(machine.data))
    assert voters is not None and voters.ids == (1,) and machine.users()
    assert machine.format(quorum=QuorumOptions(standalone=True)) == 0, "said again, it has nothing to do"


def test_a_secured_controller_that_joins_makes_no_ca_and_no_user(machine: Machine, tmp_path: Path) -> None:
    machine.write(is_dynamic=True)
    with pytest.raises(ConfigError, match=r"has no ca\.pem: this cluster .* has begun, and has one CA"):
        machine.format(quorum=QuorumOptions(join=True))
    assert not machine.ca.exists()
    authority = Authority.create(tmp_path / "ca")
    machine.ca.mkdir()
    for path in (authority.node(1, ["127.0.0.1"]), authority.directory / "ca.pem"):
        (machine.ca / path.name).write_bytes(path.read_bytes())
    assert machine.format(quorum=QuorumOptions(join=True)) == 0
    assert machine.users() == {} and read_first_voters(OsFileSystem(), str(machine.data)) == NO_VOTERS


def without_a_key(machine: Machine) -> None:
    machine.ca.mkdir()
    (machine.ca / "ca.pem").write_bytes((Authority.create(machine.directory / "x").directory / "ca.pem").read_bytes())


def of_another(machine: Machine) -> None:
    path = Authority.create(machine.ca).node(2, ["127.0.0.1"])
    path.rename(machine.ca / "node-1.pem")


def formatted_open(machine: Machine) -> None:
    machine.format()
    machine.write()


def several(machine: Machine) -> None:
    machine.write(hosts=("10.0.0.1", "10.0.0.2", "10.0.0.3"))


def with_text(text: str) -> Callable[[Machine], None]:
    return lambda machine: machine.write(text)


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (several, r"has no ca\.pem: this cluster is on several machines, or has begun, and has one CA"),
        (lambda m: m.write(node_id=2, roles="broker"), r"has no ca\.pem: this cluster is on several machines"),
        (without_a_key, r"has neither node-1\.pem nor ca\.key: run `penstock certs node 1 "),
        (of_another, r"its certificate is that of node 2 of cluster .*, but this is node 1"),
        (formatted_open, r"is formatted already, and the configuration lacks keys of security: it is for new nodes"),
        (with_text(KEYS.replace("SASL_SSL", "PLAINTEXT")), "leaves BROKER PLAINTEXT; write BROKER:SASL_SSL there"),
        (with_text(KEYS.replace("SASL_SSL", "SASL_PLAINTEXT")), "leaves BROKER SASL_PLAINTEXT; write BROKER:SASL_SSL"),
        (with_text(KEYS.replace("SASL_SSL", "SSL")), "leaves BROKER SSL; write BROKER:SASL_SSL"),
        (
            with_text('authorizer.class.name = ""'),
            r"super.users is set, and no authorizer|authorizer.class.name is empty",
        ),
        (with_text("allow.everyone.if.no.acl.found = true"), "lets everybody do everything until there are ACLs"),
        (with_text('super.users = "User:ops"'), "super.users has no User:admin, the user that the cluster begins with"),
        (with_text('ssl.keystore.location = "gone.pem"'), r"gone\.pem: there is no such file; `penstock certs node 1`"),
        (with_text("log.segment.byte = 1"), "unknown key"),
    ],
)
def test_what_is_refused_leaves_everything_as_it_was(
    machine: Machine, prepare: Callable[[Machine], None], says: str
) -> None:
    prepare(machine)
    before = machine.files()
    with pytest.raises((ConfigError, MetaPropertiesError), match=says):
        machine.format()
    assert machine.files() == before


def test_another_cluster_than_the_cas_is_refused(machine: Machine) -> None:
    Authority.create(machine.ca)
    with pytest.raises(ConfigError, match=r"the CA in .* is that of cluster"):
        machine.format(cluster_id=OTHER_CLUSTER)
    machine.format()
    with pytest.raises(MetaPropertiesError, match="the certificate is for node 1 of cluster"):
        machine.format(cluster_id=OTHER_CLUSTER)


def test_a_node_that_rejoins_is_not_new(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="--rejoin for one that the cluster knows"):
        machine.format(rejoin=True)


def test_variables_are_no_file_to_write_keys_into(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="--secure writes keys into the configuration file"):
        secure.main(f"env:{machine.config}", "", False, (), str(machine.ca))


def test_a_file_that_is_not_the_nodes_to_write_has_its_lines_printed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path, *_: object) -> None:
        raise ConfigError(f"{path}: cannot be written (Permission denied)")

    with monkeypatch.context() as patched:
        patched.setattr(secure, "write_file", refused)
        with pytest.raises(ConfigError, match="add the lines above to the file yourself, and say this again"):
            machine.format()
    lines = [line for line in capsys.readouterr().out.splitlines() if " = " in line]
    machine.write("\n".join(lines))
    before = machine.config.read_text()
    assert machine.format() == 0
    assert machine.config.read_text() == before, "they are all that it needs"
