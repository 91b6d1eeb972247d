"""The node that is flooded, its users, and the honest clients at work beside; secured or plain.

One node, because a flood is a matter of each node alone. It is left for a new one before what floods and honest clients
leave behind changes the next row. Limits that a flood of seconds could not reach are scaled down here (CONFIG); all
others are a node's defaults. Everything ends with the stage.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import cycle
from types import TracebackType
from typing import Any, Final

from penstock import Admin
from penstock.client.admin.admin_types import UserScramCredentialUpsertion
from penstock.local_nodes.node_ports import (
    CONTROLLER_PORT_STEP,
    INTERNAL_PORT_STEP,
    KAFKA_PORT_STEP,
    METRICS_PORT_STEP,
)
from penstock.messages.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from penstock.messages.security.quotas import QuotaEntity
from penstock.record.builder import build_batch
from penstock.testing import Cluster
from penstock.testing.ports import HOST, free_ports, is_free
from tests.attack.floods import honest
from tests.attack.floods.kafka_floods import TENANTS_TOPIC
from tests.attack.floods.links import Target
from tests.attack.floods.measures import Acts
from tests.attack.floods.table import ANYBODY, CONNECTIONS_MAX, SIX, STRANGER, TENANT, Row

MIB: Final = 1 << 20
CONFIG: Final[dict[str, object]] = {
    "max.connections": CONNECTIONS_MAX,
    "queued.max.response.bytes": 64 * MIB,
    "connections.max.write.stall.ms": 1_000,
    "group.coordinator.memory.max.bytes": 4 * MIB,
    "transaction.coordinator.memory.max.bytes": 1 * MIB,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "fetch.sessions.max.bytes": 32 * MIB,
}
KEPT_BYTES: Final = {"retention.bytes": str(32 * MIB), "segment.bytes": str(16 * MIB)}
TENANTS_PARTITIONS, TENANTS_MIB = 20, 20
OTHER_TOPICS: Final = 20
MUTATION_RATE: Final = 50
"""The quota of the tenant, without which it makes 1,000 partitions a second and more."""
READY_S, ALIVE_S = 60.0, 15.0
SIX_STEPS: Final = {"KAFKA_SIX": 500, "BROKER_SIX": 501}
"""The listeners of IPv6, by how far their ports are above the node's first one."""
STEPS: Final = (0, CONTROLLER_PORT_STEP, METRICS_PORT_STEP, INTERNAL_PORT_STEP, KAFKA_PORT_STEP, *SIX_STEPS.values())
IDS_MAX: Final = 200
"""So many transactional ids honest clients make on one stage. An id stays, so they would fill their share of the
coordinator's memory in the end: a quarter of it beside a tenant that has filled its own first, which is 337 of their
ids. They make two a second, and the longest flood takes less than a minute."""
NETWORKS: Final = 254
RIGHTS: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


def _all_of(user: str, prefix: str) -> list[AclBinding]:
    return [
        AclBinding(kind, prefix, f"User:{user}", Operation.ALL, Permission.ALLOW, "*", PatternType.PREFIXED)
        for kind in RIGHTS
    ]


def has_six() -> bool:
    """True where this machine's loopback has IPv6."""
    try:
        with socket.create_server((SIX, 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def _first_port() -> int:
    """The first of a node's ports, all of which are free."""
    return next(port for port in (free_ports(1)[0].broker for _ in range(100)) if _are_free(port))


def _are_free(first: int) -> bool:
    return all(is_free(HOST, first + step) for step in STEPS)


def _listeners(first: int, *, is_plain: bool) -> dict[str, object]:
    """The listeners of a cluster with fixed ports, and two more of IPv6."""
    names = {"BROKER": 0, "KAFKA": KAFKA_PORT_STEP, "INTERNAL": INTERNAL_PORT_STEP, "CONTROLLER": CONTROLLER_PORT_STEP}
    protocols = {name: "SSL" if name in ("INTERNAL", "CONTROLLER") else "SASL_SSL" for name in (*names, *SIX_STEPS)}
    found: dict[str, object] = {
        "listeners": [
            *(f"{name}://{HOST}:{first + step}" for name, step in names.items()),
            *(f"{name}://[{SIX}]:{first + step}" for name, step in SIX_STEPS.items()),
        ],
        "listener.type.map": ["KAFKA_SIX:KAFKA"],
    }
    secured = {"listener.security.protocol.map": [f"{name}:{protocol}" for name, protocol in protocols.items()]}
    return found if is_plain else {**found, **secured}


def sources_of(row: Row, network: int) -> tuple[str, ...]:
    """The addresses of a row's flooder, in the flood's own part of the loopback network; "" is that of the honest
    clients."""
    has_theirs = row.host or row.is_neighbour or (row.who not in (STRANGER, ANYBODY) and row.addresses == 1)
    return ("",) if has_theirs else tuple(f"127.1.{network}.{number + 1}" for number in range(row.addresses))


class Stage:
    """One node with its users and honest clients, within `with`."""

    def __init__(self, *, is_plain: bool, config: Mapping[str, object] | None = None) -> None:
        self._first = _first_port()
        six = _listeners(self._first, is_plain=is_plain) if has_six() else {}
        own = {**CONFIG, **six, **(config or {})}
        self.cluster = Cluster(1, secure=not is_plain, port=self._first, config=own)
        self.acts = Acts()
        users = ("tenant", "mallory", *honest.USERS)
        self._passwords = {user: secrets.token_urlsafe(18) for user in users}
        self._networks = cycle(range(1, NETWORKS + 1))
        """Each flood comes from addresses of its own: the node shuts a network out for a minute."""
        self._honest: subprocess.Popen[str] | None = None
        self._heard: threading.Thread | None = None

    def __enter__(self) -> Stage:
        self.cluster.open()
        try:
            self._furnish()
            self._begin_honest()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _furnish(self) -> None:
        who: dict[str, Any] = dict(self.cluster.client_options)
        with Admin(self.cluster.bootstrap, **who) as admin:
            if who:
                upsertions = [UserScramCredentialUpsertion(*pair) for pair in self._passwords.items()]
                admin.alter_user_scram_credentials(upsertions)
                acls = [acl for user in honest.USERS for acl in _all_of(user, honest.PREFIX)]
                admin.create_acls([*acls, *_all_of("tenant", "tenant")])
                admin.alter_client_quotas({QuotaEntity("tenant"): {"controller_mutation_rate": MUTATION_RATE}})
            for name in (honest.TOPIC, honest.LARGE_TOPIC, honest.COMMITTED_TOPIC):
                admin.create_topic(name, honest.PARTITIONS, config=KEPT_BYTES)
            admin.create_topic(
                honest.CONVERTED_TOPIC, honest.PARTITIONS, config={**KEPT_BYTES, "compression.type": "gzip"}
            )
            admin.create_topic(TENANTS_TOPIC, TENANTS_PARTITIONS, config=KEPT_BYTES)
            for number in range(OTHER_TOPICS):
                admin.create_topic(f"tenant-other-{number}", 10)
        with self.target(Row("", TENANT if who else ANYBODY)).kafka_link(timeout_s=honest.TIMEOUT_S) as link:
            for _ in range(TENANTS_MIB):
                link.produce(TENANTS_TOPIC, build_batch([bytes(MIB - 1_000)], timestamps_ms=int(time.time() * 1_000)))

    def _begin_honest(self) -> None:
        secured = self.cluster.secured
        where = honest.Where(
            self.cluster.bootstrap,
            self.cluster.kafka_bootstrap,
            self.cluster.ports(0).metrics,
            "" if secured is None else str(secured.ca),
            self._passwords,
            self.cluster.ports(0).kafka,
        )
        command = [sys.executable, "-m", "tests.attack.floods.honest", json.dumps(asdict(where))]
        self._honest = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._heard = threading.Thread(target=self._hear, args=(self._honest,), daemon=True)
        self._heard.start()
        if missing := self.idle_kinds(READY_S, 3):
            raise TimeoutError(
                f"honest clients without a flood: nothing of {missing}; {self.acts.errors(0, 1e18)[-3:]}"
            )

    def _hear(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.acts.heard(line)

    def idle_kinds(self, within_s: float = ALIVE_S, acts: int = 1) -> list[str]:
        """The kinds that do not get so many acts done in the time; returns as soon as all have."""
        began, missing = time.monotonic(), [kind.name for kind in honest.KINDS]
        while missing and time.monotonic() < began + within_s:
            time.sleep(0.05)
            missing = [kind for kind in missing if self.acts.since(kind, began) < acts]
        return missing

    @property
    def is_spent(self) -> bool:
        """True once its honest clients have left so much behind that a long flood more could stop them."""
        return self.acts.since("new-transactional-id", 0) >= IDS_MAX

    def _end(self) -> None:
        if self._honest is not None:
            assert self._honest.stdin is not None
            self._honest.stdin.close()
            try:
                self._honest.wait(0.5)
            except subprocess.TimeoutExpired:
                self._honest.kill()
                self._honest.wait()
            assert self._heard is not None and self._honest.stdout is not None
            self._heard.join(10)
            self._honest.stdout.close()
        self.cluster.close()

    @property
    def pid(self) -> int:
        return self.cluster.pid(0)

    @property
    def is_alive(self) -> bool:
        return self.cluster.is_running(0)

    def log_words(self, words: Sequence[str]) -> dict[str, int]:
        """How often each is in the node's log."""
        text = self.cluster.log_path(0).read_text(encoding="utf-8", errors="replace")
        return {word: text.count(word) for word in words}

    @property
    def log_bytes(self) -> int:
        return self.cluster.log_path(0).stat().st_size

    def target(self, row: Row) -> Target:
        """The node, for the flooder of a row."""
        ports, secured = self.cluster.ports(0), self.cluster.secured
        is_nobody = row.who in (STRANGER, ANYBODY)
        return Target(
            self._first + SIX_STEPS["KAFKA_SIX"] if row.host else ports.kafka,
            self._first + SIX_STEPS["BROKER_SIX"] if row.host else ports.broker,
            ports.metrics,
            "" if secured is None else str(secured.ca),
            "" if is_nobody else row.who,
            "" if is_nobody else self._passwords[row.who],
            sources_of(row, next(self._networks)),
            row.host or HOST,
        )
