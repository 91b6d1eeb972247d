"""The state that a file declares, or a cluster has: topics, configurations, users, ACLs and quotas. Plain values.

One type is both, so a plan compares like with like, and an export is written from what was found. In a file a number
that is left out means that any will do. Not here: the file (reading.py, writing.py), and the plan (plan.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import AclBinding
from penstock.messages.security.quotas import QuotaEntity


class DeclaredKind(StrEnum):
    """The kinds of things that are declared."""

    TOPICS = "topics"
    CONFIGS = "configs"
    USERS = "users"
    ACLS = "acls"
    QUOTAS = "quotas"


@dataclass(frozen=True, slots=True)
class DeclaredTopic:
    """A topic. `config` has the keys that it sets itself, as text."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclaredUser:
    """A user that logs in with a password, and where its password is found: in a variable of the environment, or in the
    first line of a file. The password itself is never part of this."""

    name: str
    mechanisms: tuple[str, ...] = ()
    iterations: int | None = None
    password_env: str = ""
    password_file: str = ""

    @property
    def has_password(self) -> bool:
        return bool(self.password_env or self.password_file)


@dataclass(frozen=True, slots=True)
class DeclaredState:
    """Everything that is declared or found. Internal topics are never in it."""

    topics: Mapping[str, DeclaredTopic] = field(default_factory=dict)
    configs: Mapping[int | None, Mapping[str, str]] = field(default_factory=dict)
    """The dynamic configuration of each broker that has one; None: of all brokers."""
    users: Mapping[str, DeclaredUser] = field(default_factory=dict)
    acls: frozenset[AclBinding] = frozenset()
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    unseen: Mapping[DeclaredKind, str] = field(default_factory=dict)
    """The kinds that could not be looked at: why. Nothing of them is known."""
    unseen_brokers: Mapping[int, str] = field(default_factory=dict)
    """The brokers whose configuration could not be looked at: why."""

    def sees(self, kind: DeclaredKind) -> bool:
        return kind not in self.unseen
