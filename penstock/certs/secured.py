"""The files that secure a cluster in one directory, and what its nodes and clients are told of them.

    ca.pem            the CA's certificate; ca.key, its key, is beside it
    node-1.pem        key and certificate of each node
    admin.password    the password of the user `admin`, which has every right
    client.env        for a shell: `. client.env`, and every client and command is that user
    kafka.properties  the same for Kafka's tools

TLS everywhere; clients log in by SCRAM, nodes show their certificates; nobody but `admin` may do anything until ACLs
say so. Files with secrets are their owner's alone. The CA and the password are made once and kept. For local clusters
(penstock/testing/) and for `penstock node format --secure` (broker/node/commands/secure.py). Not here: formatting the
nodes with the first user.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

from penstock.certs.authority import CA_FILE, CA_KEY_FILE, PRIVATE, Authority, write_file
from penstock.lazy_dataclass import dataclass

ADMIN = "admin"
PASSWORD_BYTES = 18
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
OF_NODES = ("INTERNAL", "CONTROLLER")
"""The listeners of the nodes themselves, which every node names, also where it has none of its own."""
KAFKA_PROPERTIES = """\
security.protocol=SASL_SSL
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""


@dataclass(frozen=True, slots=True)
class Secured:
    """The files of one secured cluster, in one directory."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / CA_FILE

    @property
    def ca_key(self) -> Path:
        return self.directory / CA_KEY_FILE

    @property
    def password_file(self) -> Path:
        return self.directory / f"{ADMIN}.password"

    @property
    def client_env(self) -> Path:
        return self.directory / "client.env"

    @property
    def kafka_properties(self) -> Path:
        return self.directory / "kafka.properties"

    @property
    def client_options(self) -> dict[str, str]:
        """The options of a client that is `admin`."""
        return {"tls_ca": str(self.ca), "username": ADMIN, "password_file": str(self.password_file)}

    @property
    def first_user(self) -> list[str]:
        """ADMIN, as `node format --add-scram` takes it: once for each mechanism."""
        user = f'[name={ADMIN},password-file="{self.password_file}"]'
        return [f"{mechanism}={user}" for mechanism in MECHANISMS]

    def node_keys(self, index: int, listeners: Sequence[str], client_listeners: Sequence[str]) -> dict[str, object]:
        """The keys of a node that has these listeners."""
        protocols = {name: "SASL_SSL" if name in client_listeners else "SSL" for name in listeners}
        return {
            "listener.security.protocol.map": [f"{name}:{protocol}" for name, protocol in protocols.items()],
            "ssl.keystore.location": str(self.keystore(index)),
            "ssl.truststore.location": str(self.ca),
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }

    def keystore(self, index: int) -> Path:
        return self.directory / f"node-{index}.pem"

    def authority(self, cluster_id: str = "") -> Authority:
        """The CA. If the directory has none, it is made, for that cluster or a new one."""
        if self.ca.exists() or self.ca_key.exists():
            return Authority.open(self.directory)
        return Authority.create(self.directory, cluster_id)

    def write(self, cluster_id: str, bootstrap: str) -> None:
        """The files that all nodes and clients share."""
        self.authority(cluster_id)
        self.write_password()
        self.write_client_files(bootstrap)

    def write_password(self) -> None:
        """Writes the password of ADMIN, unless there is a password file."""
        if not self.password_file.exists():
            self._write(self.password_file, secrets.token_urlsafe(PASSWORD_BYTES) + "\n")

    def write_client_files(self, bootstrap: str) -> None:
        """Writes the files by which clients of the cluster at `bootstrap` are ADMIN."""
        password = self.password_file.read_text(encoding="utf-8").strip()
        variables = {"PENSTOCK_BOOTSTRAP": bootstrap}
        variables |= {f"PENSTOCK_{name.upper()}": value for name, value in self.client_options.items()}
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        self._write(self.client_env, "".join(lines))
        texts = {"mechanism": MECHANISMS[0], "user": ADMIN, "password": password, "ca": self.ca}
        self._write(self.kafka_properties, KAFKA_PROPERTIES.format(**texts))

    def write_node(self, index: int, host: str) -> None:
        """The certificate of a node whose clients connect to `host`, issued anew: names and hosts may have changed."""
        self.keystore(index).unlink(missing_ok=True)
        hosts = dict.fromkeys((host, *OWN_HOSTS))
        Authority.open(self.directory).node(index, list(hosts))

    def _write(self, path: Path, text: str) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, text.encode(), PRIVATE)
