"""The clusters that `benchmarks.security` measures: ours without security, with ACLs alone, and with TLS, log-ins and
ACLs; Kafka plain and with TLS at every listener. Not here: the clients, the turns and the table (`security.py`)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import broker_systems as systems
from benchmarks.broker_client_kafka import SECURITY_VARIABLE
from penstock import Admin
from penstock.certs.authority import CA_FILE, Authority
from penstock.client.admin.admin_types import (
    AclBinding,
    Operation,
    ResourceType,
    UserScramCredentialUpsertion,
)
from penstock.client.options.security_options import VARIABLES
from penstock.messages.security.acls import CLUSTER_NAME
from penstock.testing import Cluster

NODES, PARTITIONS = 3, 6
OTHER_ACLS = 1_000
USER, PASSWORD = "bench", "the benchmark's own"
PLAIN, ACLS, TLS = "plain", "acls", "tls"
KAFKA, KAFKA_TLS = "kafka", "kafka-tls"


@dataclass(frozen=True, slots=True)
class Target:
    """One running cluster, and what its clients must know."""

    name: str
    bootstraps: Mapping[str, str]
    """By library."""
    create_topic: Callable[[str], object]
    pids: Callable[[], Sequence[int]]
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def ours(name: str) -> Iterator[Target]:
    """A cluster of this name's security, with a node's own defaults."""
    keys = {ACLS: {"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": True}}.get(name, {})
    with Cluster(NODES, config=keys, defaults={}, secure=name == TLS) as cluster, ExitStack() as stack:
        admin = stack.enter_context(Admin(cluster.bootstrap, **cluster.client_options))
        principal = f"User:{USER}" if name == TLS else "User:ANONYMOUS"
        if name != PLAIN:
            for some in _rights(principal):
                for acl, error in admin.create_acls(some).items():
                    if error is not None:
                        raise RuntimeError(f"{acl}: {error}")
        environment: dict[str, str] = {}
        if name == TLS:
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, PASSWORD)])
            environment = _environment(cluster)
        yield Target(
            name,
            {"penstock": cluster.bootstrap, "kafka": cluster.kafka_bootstrap},
            lambda topic: admin.create_topic(topic, PARTITIONS, NODES),
            lambda: [cluster.pid(index) for index in range(NODES)],
            environment,
        )


def _rights(principal: str) -> Iterator[list[AclBinding]]:
    """First the right to give the others, then those, among many of somebody else."""

    def acl(kind: ResourceType, name: str, who: str = principal) -> AclBinding:
        return AclBinding(kind, name, who, Operation.ALL)

    yield [acl(ResourceType.CLUSTER, CLUSTER_NAME)]
    yield [acl(ResourceType.TOPIC, "*"), acl(ResourceType.GROUP, "*"), acl(ResourceType.TRANSACTIONAL_ID, "*")]
    yield [acl(ResourceType.TOPIC, f"other-{number}", f"User:other-{number % 10}") for number in range(OTHER_ACLS)]


def _environment(cluster: Cluster) -> dict[str, str]:
    """By which both libraries' clients log in."""
    secured = cluster.secured
    assert secured is not None
    options = {"tls_ca": str(secured.ca), "username": USER, "password": PASSWORD}
    of_kafka = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.ca),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    return {VARIABLES[name]: value for name, value in options.items()} | {SECURITY_VARIABLE: json.dumps(of_kafka)}


@contextmanager
def kafkas(peers: Path, name: str, *, fsync: bool) -> Iterator[Target]:
    """Kafka, plain or with TLS for clients, between brokers and for controllers."""
    with ExitStack() as stack:
        config: dict[str, Any] = {}
        environment: dict[str, str] = {}
        if name == KAFKA_TLS:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-tls-")))
            keystore, ca = Authority.create(directory).node(1, ["127.0.0.1", "localhost"]), directory / CA_FILE
            config = {
                "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": keystore,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": ca,
            }
            environment = {SECURITY_VARIABLE: json.dumps({"security.protocol": "SSL", "ssl.ca.location": str(ca)})}
        system = stack.enter_context(systems.kafka(peers, NODES, fsync=fsync, config=config))
        more = json.loads(environment.get(SECURITY_VARIABLE, "{}"))
        yield Target(name, {"kafka": system.bootstrap}, _creates(system.bootstrap, more), system.pids, environment)


def _creates(bootstrap: str, more: Mapping[str, str]) -> Callable[[str], object]:
    from confluent_kafka.admin import AdminClient, NewTopic

    quiet = {"log_level": 0}  # it outlives Kafka, and would tell of that
    admin = AdminClient({"bootstrap.servers": bootstrap, **quiet, **more})

    def create(topic: str) -> None:
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, NODES)]).values():
            created.result(60)

    return create
