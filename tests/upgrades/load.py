"""The clients of a pass: writers, readers and members of groups, ours of two releases and those of confluent-kafka.

    plain           ours of the oldest release and of this one, and confluent-kafka: acks=all, idempotent
    transactional   ours of this release, and confluent-kafka; one transaction of four is aborted
    readers         ours of both releases, of everything in `plain`
    members         of both topics, committed records alone: ours, and confluent-kafka by each protocol of groups

In a secured cluster they have TLS, log in by SCRAM, and have the rights that ACLs give to their user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock import Admin
from penstock.client.admin.admin_types import (
    AclBinding,
    Operation,
    PatternType,
    ResourceType,
    UserScramCredentialUpsertion,
)
from penstock.client.options.security_options import VARIABLES
from penstock.testing import Cluster
from tests.support.campaign.reading import COMMITTED, places_of, tables_of
from tests.support.waiting import wait_until
from tests.upgrades.figures import Accounts, Found, Place, Record
from tests.upgrades.releases import Release, RunningClient

PLAIN, TRANSACTIONAL, PARTITIONS, REPLICAS = "load-plain", "load-transactional", 3, 3
BOTH: Final = f"{PLAIN},{TRANSACTIONAL}"
USER, PASSWORD, NAMES = "load", "of the load alone", "load-"
"""Every topic, group and transactional id of a pass begins with NAMES, and the user may use those."""
MEMBERS_S = 60.0


def prepare(admin: Admin, *, is_secure: bool) -> None:
    """The topics, and the user with its rights."""
    for topic in (PLAIN, TRANSACTIONAL):
        admin.create_topic(topic, PARTITIONS, REPLICAS, {"min.insync.replicas": 2})
    if is_secure:
        rights = [
            AclBinding(kind, NAMES, f"User:{USER}", Operation.ALL, pattern_type=PatternType.PREFIXED)
            for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        ]
        answers = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, PASSWORD)])
        refused = [*answers.values(), *admin.create_acls(rights).values()]
        if any(refused):
            raise RuntimeError(f"the pass cannot begin: {refused}")


def variables(cluster: Cluster) -> dict[str, str]:
    """The environment by which a client of ours is the user."""
    if cluster.secured is None:
        return {}
    options = {"tls_ca": str(cluster.secured.ca), "username": USER, "password": PASSWORD}
    return {VARIABLES[name]: value for name, value in options.items()}


def librdkafka_config(cluster: Cluster) -> dict[str, Any]:
    """The configuration by which confluent-kafka is the user."""
    config: dict[str, Any] = {"bootstrap.servers": cluster.kafka_bootstrap, "log_level": 0}
    if cluster.secured is not None:
        config |= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(cluster.secured.ca),
        }
    return config


class Load:
    """The processes of one pass."""

    def __init__(self, cluster: Cluster, releases: Sequence[Release], directory: Path) -> None:
        """`releases`: those whose clients of ours work, this one last."""
        self._cluster, self._releases, self._directory = cluster, releases, directory
        self._variables = variables(cluster)
        self._running: list[RunningClient] = []
        self._members: list[RunningClient] = []

    @contextmanager
    def running(self, accounts: Accounts) -> Iterator[None]:
        """The clients work within; the accounts are those of all in the end."""
        now, config = self._releases[-1], json.dumps(librdkafka_config(self._cluster))
        try:
            readers = [self._ours(one, "consume", PLAIN, one.name) for one in self._releases]
            self._members = members = [
                self._ours(now, "member", BOTH, f"{NAMES}ours"),
                *(self._begin(now, "confluent", one, config, BOTH, NAMES + one) for one in ("classic", "consumer")),
            ]
            transactions = [
                self._ours(now, "transact", TRANSACTIONAL, f"{NAMES}ours"),
                self._begin(now, "confluent", "transact", config, TRANSACTIONAL, f"{NAMES}confluent"),
            ]
            writers = [
                *(self._ours(one, "produce", PLAIN, one.name) for one in self._releases),
                self._begin(now, "confluent", "produce", config, PLAIN, "confluent"),
            ]
            yield
            # Writers end FIRST: a reader that is told to end looks where the end of a topic is.
            accounts.writers |= _ended(writers)
            accounts.transactions |= _ended(transactions)
            accounts.readers |= _ended(readers)
            accounts.members |= _ended(members)
        finally:
            for one in self._running:
                one.kill()

    def wait_for_members(self) -> None:
        """Returns once every member reads. One of librdkafka may never begin where a coordinator of release 0.2.0 or
        older stops between its join and its first OffsetFetch (docs/kafka-clients.md)."""
        wait_until(lambda: all(one.lines() for one in self._members), MEMBERS_S)

    def require_alive(self) -> None:
        """RuntimeError where a client has ended by itself."""
        for one in self._running:
            one.require_alive()

    def _ours(self, release: Release, role: str, topics: str, name: str) -> RunningClient:
        return self._begin(release, "ours", role, self._cluster.bootstrap, topics, name)

    def _begin(self, release: Release, script: str, *arguments: str) -> RunningClient:
        client = RunningClient(release, script, self._directory, *arguments, variables=self._variables)
        self._running.append(client)
        return client


def _ended(clients: Sequence[RunningClient]) -> dict[str, Sequence[Any]]:
    for one in clients:
        one.begin_end()
    return {one.name: one.end() for one in clients}


def found_in(cluster: Cluster) -> Found:
    """The records that both topics hold for a reader of committed records."""
    return Found(*(_records(cluster, topic) for topic in (PLAIN, TRANSACTIONAL)))


def _records(cluster: Cluster, topic: str) -> dict[Place, Record]:
    columns = ("partition", "offset", "key", "value")
    return {
        (partition, offset): (key.decode(), int(value))
        for table in tables_of(cluster.bootstrap, places_of(topic, PARTITIONS), COMMITTED)
        for partition, offset, key, value in zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    }
