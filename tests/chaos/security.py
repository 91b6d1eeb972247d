"""A secured cluster under faults: its users and their rights, certificates that are replaced, and who must not get in.

The clients of the run are the user `worker`, whose rights are ACLs, and find TLS and password in their environment, as
a deployment gives them. Before each fault the certificate of a node is issued anew under it. Strangers try meanwhile,
without TLS, without a log-in, with a wrong password, and as a user without rights: one who gets in is an anomaly. What
each was told is counted; while nodes are away that may be nothing.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch

from penstock import Admin, Producer
from penstock.certs.authority import Authority
from penstock.client.admin.admin_types import (
    AclBinding,
    Operation,
    ResourceType,
    UserScramCredentialUpsertion,
)
from penstock.client.options.security_options import VARIABLES
from penstock.errors import PenstockError
from penstock.messages.security.acls import CLUSTER_NAME
from penstock.testing import Cluster
from tests.chaos.faults import NODES
from tests.chaos.history import History
from tests.chaos.ledger import Ledger
from tests.support.campaign.beside import beside

WORKER, STRANGER = "worker", "stranger"
PASSWORDS = {WORKER: "the worker's own", STRANGER: "the stranger's own"}
TRY_S = 0.5
TRY_TIMEOUT_MS = 3_000


@dataclass(slots=True)
class Security:
    """That of one run. `refused`: what strangers were told, by who they were and the error's name."""

    cluster: Cluster
    ledger: Ledger
    history: History
    refused: Counter[str] = field(default_factory=Counter)
    renewals: int = 0

    @contextmanager
    def on(self, admin: Admin, topic: str) -> Iterator[None]:
        """Within, this process's clients are `worker`, certificates are replaced, and strangers want `topic`."""
        users = [UserScramCredentialUpsertion(user, password) for user, password in PASSWORDS.items()]
        for refused in (admin.alter_user_scram_credentials(users), admin.create_acls(_rights())):
            if any(refused.values()):
                raise RuntimeError(f"the run cannot begin: {refused}")
        with patch.dict(os.environ, _variables(self._options(WORKER))), beside(partial(self._try, topic)):
            yield

    def _options(self, user: str) -> dict[str, str]:
        return {"tls_ca": self.cluster.client_options["tls_ca"], "username": user, "password": PASSWORDS[user]}

    def renew(self) -> None:
        """One node's certificate after the other; nothing without security. Not while a node is started, which issues
        a new one, too."""
        secured, node = self.cluster.secured, self.renewals % NODES
        if secured is not None:
            Authority.open(secured.directory).renew(secured.directory / f"node-{node}.pem")
            self.renewals += 1
            self.history.write("certificate renewed", node=node)

    def _try(self, topic: str, is_over: threading.Event) -> None:
        """Strangers in turn."""
        known = {"tls_ca": self.cluster.client_options["tls_ca"]}
        as_stranger = self._options(STRANGER)
        tries: Mapping[str, Callable[[], object]] = {
            "without TLS": lambda: self._ask({"tls": False, "username": WORKER, "password": PASSWORDS[WORKER]}),
            "with a wrong password": lambda: self._ask({**known, "username": WORKER, "password": "a guess"}),
            "without rights, writing": lambda: self._write(as_stranger, topic),
            "without rights, asking": lambda: self._describe(as_stranger, topic),
        }
        for number in count():
            if is_over.wait(TRY_S):
                return
            who = list(tries)[number % len(tries)]
            try:
                got = tries[who]()
            except PenstockError as error:
                self.refused[f"{who}: {type(error).__name__}"] += 1
            else:
                self.ledger.report("let-in", f"somebody {who} was given {got!r}")

    def _ask(self, options: dict[str, Any]) -> object:
        with Admin(self.cluster.bootstrap, default_api_timeout_ms=TRY_TIMEOUT_MS, **options) as admin:
            return admin.list_topics()

    def _describe(self, options: dict[str, str], topic: str) -> object:
        with Admin(self.cluster.bootstrap, default_api_timeout_ms=TRY_TIMEOUT_MS, **options) as admin:
            return admin.describe_topic(topic)

    def _write(self, options: dict[str, str], topic: str) -> object:
        limits = {"max_block_ms": TRY_TIMEOUT_MS, "delivery_timeout_ms": TRY_TIMEOUT_MS, "request_timeout_ms": 2_000}
        with Producer(self.cluster.bootstrap, enable_idempotence=False, **limits, **options) as producer:
            return producer.send(topic, b"a stranger's").result(2 * TRY_TIMEOUT_MS / 1000)


def _rights() -> list[AclBinding]:
    """The rights of the clients of a run."""
    resources = (
        (ResourceType.TOPIC, "*"),
        (ResourceType.GROUP, "*"),
        (ResourceType.CLUSTER, CLUSTER_NAME),
    )
    return [AclBinding(kind, name, f"User:{WORKER}", Operation.ALL) for kind, name in resources]


def _variables(options: Mapping[str, str]) -> dict[str, str]:
    return {VARIABLES[name]: value for name, value in options.items()}
