"""A real secured cluster with something to steal, and what it was before the attacks: metadata, records, memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.certs.authority import Authority
from penstock.client.admin.admin_types import UserScramCredentialUpsertion
from penstock.ids import system_ids
from penstock.messages.security.acls import AclBinding, Operation, ResourceType
from penstock.testing import Cluster
from penstock.testing.ports import HOST, NodePorts
from tests.attack import honest
from tests.attack.requests import OWN_GROUP, OWN_ID, Names
from tests.attack.verdict import Secrets
from tests.overload.cluster_state import rss_mib
from tests.support.certificates import TestCa
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, rsa_key

ADMIN = "admin"
MALLORY, MALLORYS = "mallory", "a password that is right"
MEMBER, MEMBERS = "member", "the password of a member"
"""Somebody with every right to a group and a transactional id, and with none to a topic."""
KNOWN_USER, UNKNOWN_USER = "sesame-user", "nobody-user"
TOPIC, HIDDEN_TOPIC = "sesame-orders", "zebra-orders"
PARTITIONS = 7
VALUE, RETENTION = b"zebra-value", "7654321987"
MEMORY_MIB = 128
"""That a node may take more than before."""
WATCH_S = 0.25
CHANGING = {"isr", "leader", "leader_id", "leader_epoch", "partition_epoch", "elr", "last_known_elr"}
"""Fields of a partition, whose ISR may change on a busy machine by itself."""


def tokens_of(issuer: Issuer, directory: Path) -> dict[str, Any]:
    """The keys of nodes whose listeners take the issuer's tokens beside passwords."""
    return {
        "sasl.enabled.mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
        "sasl.oauthbearer.jwks.endpoint.url": issuer.publish(directory / "keys.json"),
        "sasl.oauthbearer.expected.audience": [AUDIENCE],
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


class Stage:
    """See the module. `with` starts and ends the cluster."""

    def __init__(self, nodes: int, directory: Path) -> None:
        self.issuer = Issuer(rsa_key("first"), now_s=int(time.time()))
        self.cluster = Cluster(nodes, secure=True, config=tokens_of(self.issuer, directory))
        self.directory = directory
        self.names = self.missing = Names("", "", "", "", "", "", 0)
        self.secrets = Secrets((), (), ())
        self._before: dict[str, Any] = {}

    def __enter__(self) -> Stage:
        self.cluster.open()
        try:
            self._furnish()
        except BaseException:
            self.cluster.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.close()

    @property
    def who(self) -> dict[str, Any]:
        return dict(self.cluster.client_options)

    @property
    def ports(self) -> NodePorts:
        """The ports of the node that is attacked, which is in the quorum."""
        return self.cluster.ports(0)

    @property
    def ca(self) -> bytes:
        assert self.cluster.secured is not None
        return self.cluster.secured.ca.read_bytes()

    def _furnish(self) -> None:
        with Admin(self.cluster.bootstrap, **self.who) as admin:
            admin.create_topic(honest.TOPIC, 3)
            ids = [
                admin.create_topic(name, PARTITIONS, config={"retention.ms": RETENTION}).topic_id
                for name in (TOPIC, HIDDEN_TOPIC)
            ]
            users = {
                MALLORY: MALLORYS,
                MEMBER: MEMBERS,
                KNOWN_USER: system_ids().new_id(),
                "zebra-user": "another password",
            }
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion(*pair) for pair in users.items()])
            admin.create_acls(
                [
                    AclBinding(
                        ResourceType.TOPIC,
                        TOPIC,
                        "User:zebra",
                        Operation.READ,
                    ),
                    AclBinding(
                        ResourceType.GROUP,
                        "sesame-group",
                        "User:zebra",
                        Operation.READ,
                    ),
                    *(
                        AclBinding(kind, name, f"User:{MEMBER}", Operation.ALL)
                        for kind, name in (
                            (ResourceType.GROUP, OWN_GROUP),
                            (ResourceType.TRANSACTIONAL_ID, OWN_ID),
                        )
                    ),
                ]
            )
            with Producer(self.cluster.bootstrap, **self.who) as producer:
                for topic in (TOPIC, HIDDEN_TOPIC):
                    producer.send(topic, value=VALUE).result(30)
            self._commit(ids[0])
        victim = 0
        self.names = Names(TOPIC, ids[0], "sesame-group", "sesame-ident", KNOWN_USER, self.cluster.cluster_id, victim)
        self.missing = Names(
            "nobody-orders", ids[0], "nobody-group", "nobody-ident", UNKNOWN_USER, self.cluster.cluster_id, victim
        )
        hidden = (b"zebra", ids[1].encode(), RETENTION.encode(), str(self.cluster.directory(0)).encode())
        self.secrets = Secrets(
            hidden, self.names.texts()[:1] + self.names.texts()[2:], self.missing.texts()[:1] + self.missing.texts()[2:]
        )

    def _commit(self, topic_id: str) -> None:
        """The group and the transactional id that there are."""
        with Consumer(
            self.cluster.bootstrap, group_id="sesame-group", auto_offset_reset="earliest", **self.who
        ) as reader:
            reader.subscribe([TOPIC])
            while not reader.poll(timeout_ms=2_000):
                continue
            reader.commit()
        with Producer(self.cluster.bootstrap, transactional_id="sesame-ident", **self.who) as producer:
            producer.begin_transaction()
            producer.send(TOPIC, value=VALUE)
            producer.commit_transaction()

    # -- certificates --------------------------------------------------------------------------------------------------

    def node_keystore(self, authority: Authority, node_id: int) -> bytes:
        return authority.node(node_id, [HOST, "localhost"]).read_bytes()

    def stolen(self) -> bytes:
        """The keystore of a node of this cluster, other than the victim."""
        assert self.cluster.secured is not None
        own = self.cluster.secured.directory
        found = own / "node-2.pem"
        return found.read_bytes() if found.exists() else self.node_keystore(Authority.open(own), 2)

    def client_certificate(self) -> bytes:
        assert self.cluster.secured is not None
        return Authority.open(self.cluster.secured.directory).client("mallory").read_bytes()

    def of_another_ca(self) -> bytes:
        other = Authority.create(self.directory / "other-ca", self.cluster.cluster_id)
        return self.node_keystore(other, 0)

    def signing(self) -> TestCa:
        """The cluster's own CA, for certificates that `penstock certs` does not make."""
        assert self.cluster.secured is not None
        return TestCa.of_files(self.cluster.secured.ca, self.cluster.secured.ca_key)

    # -- before and after ----------------------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        """Everything that no attacker may change."""
        with Admin(self.cluster.bootstrap, **self.who) as admin:
            quorum = admin.describe_quorum()
            return {
                "metadata": sorted(_steady(text) for text in admin.describe_metadata().records),
                "records": {
                    str(partition): found
                    for topic in (TOPIC, HIDDEN_TOPIC)
                    for spec in ("earliest", "latest")
                    for partition, found in _offsets(admin, topic, spec)
                },
                "leader of the quorum": (quorum.leader_id, quorum.leader_epoch),
                "groups": sorted(group.group_id for group in admin.list_groups()),
                "offsets": str(admin.group_offsets("sesame-group")),
                "transactions": sorted(map(str, admin.list_transactions())),
            }

    def changes(self, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        wrong = []
        for name in before:
            if before[name] != after[name]:
                told = [str(one)[:300] for one in (before[name], after[name])]
                if name == "metadata":
                    told = [
                        str(sorted(set(a) - set(b))[:5])
                        for a, b in ((before[name], after[name]), (after[name], before[name]))
                    ]
                wrong.append(f"{name} changed: {told[0]} → {told[1]}")
        return wrong

    @contextmanager
    def memory_watched(self) -> Iterator[list[tuple[int, int]]]:
        """In the end it has the MiB before and at most, of each node."""
        pids = [self.cluster.pid(node) for node in range(len(self.cluster))]
        before = [rss_mib(pid) for pid in pids]
        most, ended, found = list(before), threading.Event(), list[tuple[int, int]]()

        def look() -> None:
            while not ended.wait(WATCH_S):
                most[:] = [max(old, rss_mib(pid)) for old, pid in zip(most, pids, strict=True)]

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            thread.join()
            found += zip(before, most, strict=True)


def _offsets(admin: Admin, topic: str, spec: str) -> list[tuple[str, int]]:
    found = admin.list_offsets({TopicPartition(topic, 0): spec})
    return [(f"{partition} {spec}", result.offset) for partition, result in found.items()]


def _steady(text: str) -> str:
    record = json.loads(text)
    return json.dumps(_without(record), sort_keys=True)


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(one) for name, one in value.items() if name not in CHANGING}
    return [_without(one) for one in value] if isinstance(value, list) else value
