"""A secured cluster, and a user whose ACLs are exactly the ones that a test gives it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from penstock import Admin, Producer
from penstock.client.admin.admin_types import AclBinding, AclFilter, UserScramCredentialUpsertion
from penstock.testing import Cluster
from penstock.types import TopicPartition
from tests.support.command_line import penstock

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
RECORDS = 20
ORDERS, OUT = "orders", "out"
"""The topic that is read, with RECORDS records, and the one that is written."""
GROUP, IDS = "readers-", "tx-"
"""Prefixes: each tool has a group and a transactional id of its own."""


LAGGING, KNOWN_ID = f"{GROUP}lagging", f"{IDS}known"
"""A group that has committed an offset, and a transactional id that was used."""


class RefusedCommandError(Exception):
    """A command ended with an error; its text is what it said on stderr."""


@dataclass(frozen=True)
class Who:
    """A user, and how its clients connect."""

    name: str
    password: str
    password_file: Path
    ca: str
    bootstrap: str
    kafka_bootstrap: str

    @property
    def principal(self) -> str:
        return f"User:{self.name}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of our clients."""
        return {"tls_ca": self.ca, "username": self.name, "password_file": str(self.password_file)}

    @property
    def spark(self) -> dict[str, str]:
        """The options of Spark's source and sink."""
        return {
            "bootstrap": self.bootstrap,
            "kafka.tls.ca": self.ca,
            "kafka.username": self.name,
            "kafka.password.file": str(self.password_file),
        }

    @property
    def job(self) -> str:
        """The end of the conf of a job."""
        login = f'client.username = "{self.name}"\nclient.password.file = "{self.password_file}"\n'
        return f'[run]\nquick = true\nclient.tls.ca = "{self.ca}"\n{login}'

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.kafka_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.name,
            "sasl.password": self.password,
            "ssl.ca.location": self.ca,
            "log_level": 0,
        }

    @property
    def kafka_python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.kafka_bootstrap.split(","),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": self.name,
            "sasl_plain_password": self.password,
            "ssl_cafile": self.ca,
        }

    def command(self, *words: object, stdin: bytes = b"") -> str:
        """Runs a command as this user; its output, or RefusedCommandError if it fails."""
        given = {
            "PENSTOCK_TLS_CA": self.ca,
            "PENSTOCK_USERNAME": self.name,
            "PENSTOCK_PASSWORD_FILE": str(self.password_file),
        }
        with patch.dict(os.environ, given):
            done = penstock(*words, stdin=stdin, bootstrap=self.bootstrap)
        if done.returncode:
            raise RefusedCommandError(done.stderr.decode().strip())
        return done.stdout.decode()


class Stage:
    """The cluster, with what every tool needs made by the user `admin`."""

    def __init__(self, bootstrap: str, kafka_bootstrap: str, options: Mapping[str, Any]) -> None:
        self.bootstrap, self._kafka_bootstrap, self._ca = bootstrap, kafka_bootstrap, str(options["tls_ca"])
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-rights-")
        self.options = dict(options)
        self.admin = Admin(bootstrap, **options)
        self._count = 0

    @property
    def root(self) -> Who:
        """The user that may do everything."""
        file = Path(self.options["password_file"])
        name = str(self.options["username"])
        return Who(name, file.read_text().strip(), file, self._ca, self.bootstrap, self._kafka_bootstrap)

    @property
    def path(self) -> Path:
        """A directory for what tools write."""
        return Path(self._directory.name)

    def prepare(self) -> None:
        for topic in (ORDERS, OUT):
            self.admin.create_topic(topic, 2)
        with Producer(self.bootstrap, **self.options) as producer:
            values = [f'{{"id": "{number}", "at": "2026-01-01T{number:02}:00:00Z"}}' for number in range(RECORDS)]
            producer.send_many(ORDERS, [value.encode() for value in values], partition=0).result()

        self.admin.alter_group_offsets(LAGGING, {TopicPartition(ORDERS, 0): 1})
        with (
            Producer(self.bootstrap, **self.options, transactional_id=KNOWN_ID) as producer,
            producer.transaction() as transaction,
        ):
            transaction.send(OUT, b"v")

    def own_name(self) -> str:
        """One that nothing else has."""
        self._count += 1
        return f"{self._count}"

    def user(self, name: str) -> Who:
        """A new one, which may do nothing."""
        password = f"secret of {name}"
        file = self.path / f"{name}.password"
        file.write_text(password)
        file.chmod(0o600)
        made = UserScramCredentialUpsertion(name, password, MECHANISM, ITERATIONS)
        assert self.admin.alter_user_scram_credentials([made]) == {name: None}
        return Who(name, password, file, self._ca, self.bootstrap, self._kafka_bootstrap)

    def allow(self, who: Who, acls: Iterable[AclBinding]) -> None:
        """From now on these are the ACLs of the user, and no others."""
        wanted = dict.fromkeys(acls)
        mine = self.admin.describe_acls(AclFilter(principal=who.principal))
        if gone := [acl for acl in mine if acl not in wanted]:
            self.admin.delete_acls([exactly(acl) for acl in gone])
        if new := [acl for acl in wanted if acl not in mine]:
            assert set(self.admin.create_acls(new).values()) == {None}

    def close(self) -> None:
        self.admin.close()
        self._directory.cleanup()


def exactly(acl: AclBinding) -> AclFilter:
    return AclFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


@contextmanager
def staged() -> Iterator[Stage]:
    """One node is enough: every broker judges alike."""
    with Cluster(nodes=1, config={"auto.create.topics.enable": True}, secure=True) as cluster:
        stage = Stage(cluster.bootstrap, cluster.kafka_bootstrap, cluster.client_options)
        try:
            stage.prepare()
            yield stage
        finally:
            stage.close()
