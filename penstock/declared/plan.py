"""Plans the steps from what a cluster has to what a file declares. Pure: two states in, steps out.

The order of the steps is safe at every point where it may end:

    1  configurations of brokers   they are the defaults of the topics that come
    2  topics: new, more partitions, configurations
    3  quotas, then ACLs, denials first, then users    nobody can log in before the limits and rights are there
    4  what goes, in the other direction: users, ACLs, allowances first, quotas, keys of configurations, topics

Nothing that the file does not name goes, unless its kind is pruned. For `configs` that are keys of the topics and
brokers that the file names. A password is set when the user, or a mechanism of it, is new: no cluster tells whether it
has the same one; `set_passwords` sets all that the file gives. Each step is idempotent: a plan that ended in the middle
is made anew from what is there then. What cannot be done is said before anything is done. Not here: who performs it
(penstock/cli/declared/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import field
from enum import StrEnum

from penstock.declared.state import DeclaredKind, DeclaredState, DeclaredTopic, DeclaredUser
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acl_rules import ACLS_MAX, check_acl
from penstock.messages.security.acls import AclBinding, Permission
from penstock.messages.security.quotas import QuotaEntity
from penstock.sasl.credentials import check_user_name


class Act(StrEnum):
    """The acts of a step."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class TopicMade:
    topic: DeclaredTopic


@dataclass(frozen=True, slots=True)
class MorePartitions:
    name: str
    total: int


@dataclass(frozen=True, slots=True)
class TopicGone:
    name: str


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """Keys of a topic, of a broker, or with neither of all brokers; None takes a key away."""

    topic: str | None
    broker_id: int | None
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class QuotaChanges:
    entity: QuotaEntity
    changes: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class NewAcl:
    acl: AclBinding


@dataclass(frozen=True, slots=True)
class AclGone:
    acl: AclBinding


@dataclass(frozen=True, slots=True)
class Password:
    """The user's password is set for these mechanisms."""

    user: DeclaredUser
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserGone:
    """The user can log in by these mechanisms no more."""

    name: str
    mechanisms: tuple[str, ...]


Change = TopicMade | MorePartitions | TopicGone | ConfigChanges | QuotaChanges | NewAcl | AclGone | Password | UserGone


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One step; `name` and `what` are for people and scripts."""

    kind: DeclaredKind
    act: Act
    name: str
    what: str
    change: Change

    def __str__(self) -> str:
        return f"{self.act} {self.kind} {self.name}: {self.what}"


@dataclass(frozen=True, slots=True)
class Impossible:
    """A thing that the file declares and that no step brings: why, and what does."""

    kind: DeclaredKind
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    steps: tuple[ApplyStep, ...] = ()
    impossible: tuple[Impossible, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.steps and not self.impossible

    @property
    def deletions(self) -> tuple[ApplyStep, ...]:
        return tuple(step for step in self.steps if step.act is Act.DELETE)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    prune: Set[DeclaredKind] = field(default_factory=frozenset)
    """The kinds of which everything goes that the file does not name."""
    set_passwords: bool = False
    """Passwords of users that are there are set, too."""
    caller: str = ""
    """The user that applies. Its own log-in and rights are never pruned: the steps after that would be refused, and
    perhaps nobody would be left who can log in."""


def plan_apply(wanted: DeclaredState, found: DeclaredState, options: PlanOptions = PlanOptions()) -> ApplyPlan:
    """Equal states give an empty plan, and so does the state after a plan that was done."""
    steps = [
        *_broker_configs(wanted, found),
        *_topics(wanted, found),
        *_quotas(wanted, found),
        *_acls(wanted, found),
        *_users(wanted, found, options),
        *_pruned(wanted, found, options),
    ]
    return ApplyPlan(
        tuple(one for one in steps if isinstance(one, ApplyStep)),
        (*_unseen(wanted, found, options), *(one for one in steps if isinstance(one, Impossible))),
    )


def _unseen(wanted: DeclaredState, found: DeclaredState, options: PlanOptions) -> Iterator[Impossible]:
    """Nothing is planned of a kind that cannot be looked at. It is impossible where the file names some of it."""
    named = {
        DeclaredKind.TOPICS: wanted.topics,
        DeclaredKind.CONFIGS: wanted.configs,
        DeclaredKind.USERS: wanted.users,
        DeclaredKind.ACLS: wanted.acls,
        DeclaredKind.QUOTAS: wanted.quotas,
    }
    for kind, why in sorted(found.unseen.items()):
        if named[kind] or kind in options.prune:
            yield Impossible(kind, "*", f"what is there cannot be looked at: {why}")


def _broker_configs(wanted: DeclaredState, found: DeclaredState) -> Iterator[ApplyStep | Impossible]:
    if not found.sees(DeclaredKind.CONFIGS):
        return
    for broker_id in sorted(wanted.configs, key=lambda one: -1 if one is None else one):
        config = wanted.configs[broker_id]
        if broker_id is not None and broker_id in found.unseen_brokers:
            name = _broker(broker_id)
            yield Impossible(DeclaredKind.CONFIGS, name, f"what it has is not known: {found.unseen_brokers[broker_id]}")
            continue
        yield from _config_step(None, broker_id, config, found.configs.get(broker_id, {}))


def _topics(wanted: DeclaredState, found: DeclaredState) -> Iterator[ApplyStep | Impossible]:
    if not found.sees(DeclaredKind.TOPICS):
        return
    for name, topic in sorted(wanted.topics.items()):
        there = found.topics.get(name)
        if there is None:
            yield ApplyStep(DeclaredKind.TOPICS, Act.CREATE, name, _topic_text(topic), TopicMade(topic))
            continue
        yield from _numbers(topic, there)
        yield from _config_step(name, None, topic.config, there.config)


def _numbers(topic: DeclaredTopic, there: DeclaredTopic) -> Iterator[ApplyStep | Impossible]:
    has, wants, name = there.partitions or 0, topic.partitions, topic.name
    if wants is not None and wants > has:
        yield ApplyStep(
            DeclaredKind.TOPICS, Act.CHANGE, name, f"partitions {has} -> {wants}", MorePartitions(name, wants)
        )
    if wants is not None and wants < has:
        why = f"it has {has} partitions, and partitions cannot be removed; the file says {wants}"
        yield Impossible(DeclaredKind.TOPICS, name, why)
    if topic.replication_factor not in (None, there.replication_factor):
        yield Impossible(
            DeclaredKind.TOPICS,
            name,
            f"it has {there.replication_factor} replicas, the file says {topic.replication_factor}; `penstock"
            " reassignments create` moves and adds replicas",
        )


def _config_step(
    topic: str | None, broker_id: int | None, wanted: Mapping[str, str], there: Mapping[str, str]
) -> Iterator[ApplyStep]:
    changes = {key: value for key, value in sorted(wanted.items()) if there.get(key) != value}
    if changes:
        what = ", ".join(f"{key} = {value} ({_was(there.get(key))})" for key, value in changes.items())
        yield ApplyStep(
            DeclaredKind.CONFIGS,
            Act.CHANGE,
            topic if topic is not None else _broker(broker_id),
            what,
            ConfigChanges(topic, broker_id, dict(changes)),
        )


def _quotas(wanted: DeclaredState, found: DeclaredState) -> Iterator[ApplyStep]:
    if not found.sees(DeclaredKind.QUOTAS):
        return
    for entity, values in sorted(wanted.quotas.items(), key=lambda one: one[0].parts):
        there = found.quotas.get(entity, {})
        changes = {key: value for key, value in sorted(values.items()) if there.get(key) != value}
        if changes:
            act = Act.CHANGE if there else Act.CREATE
            what = ", ".join(f"{key} = {_rate(value)} ({_was(there.get(key))})" for key, value in changes.items())
            yield ApplyStep(DeclaredKind.QUOTAS, act, str(entity), what, QuotaChanges(entity, dict(changes)))


def _acls(wanted: DeclaredState, found: DeclaredState) -> Iterator[ApplyStep | Impossible]:
    """Denials first: no right is there for a moment that is denied in the end."""
    if not found.sees(DeclaredKind.ACLS):
        return
    missing = wanted.acls - found.acls
    for acl in sorted(missing, key=lambda one: (one.permission is not Permission.DENY, str(one))):
        try:
            check_acl(acl)
            yield ApplyStep(DeclaredKind.ACLS, Act.CREATE, acl.principal, str(acl), NewAcl(acl))
        except ApiError as error:
            yield Impossible(DeclaredKind.ACLS, acl.principal, error.message)
    if missing and len(missing) + len(found.acls) > ACLS_MAX:
        why = f"{len(missing)} ACLs come to {len(found.acls)}, and a cluster keeps at most {ACLS_MAX}"
        yield Impossible(DeclaredKind.ACLS, "*", f"{why}: let prefixes stand for many names, or delete some first")


def _users(wanted: DeclaredState, found: DeclaredState, options: PlanOptions) -> Iterator[ApplyStep | Impossible]:
    if not found.sees(DeclaredKind.USERS):
        return
    for name, user in sorted(wanted.users.items()):
        there = found.users.get(name)
        has = () if there is None else there.mechanisms
        missing = tuple(one for one in user.mechanisms if one not in has)
        if missing and not user.has_password:
            what = "there is no such user" if there is None else f"it has no password for {', '.join(missing)}"
            yield Impossible(
                DeclaredKind.USERS, name, f"{what}, and the file gives none: add password-env or password-file"
            )
        elif missing or (options.set_passwords and user.has_password):
            try:
                check_user_name(name)
            except ApiError as error:
                yield Impossible(DeclaredKind.USERS, name, error.message)
                continue
            set_for = user.mechanisms if options.set_passwords else missing
            act = Act.CREATE if there is None else Act.CHANGE
            yield ApplyStep(
                DeclaredKind.USERS, act, name, f"a password for {', '.join(set_for)}", Password(user, set_for)
            )


# -- what goes ---------------------------------------------------------------------------------------------------------


def _pruned(wanted: DeclaredState, found: DeclaredState, options: PlanOptions) -> Iterator[ApplyStep | Impossible]:
    prune = options.prune
    if DeclaredKind.USERS in prune and found.sees(DeclaredKind.USERS):
        yield from _users_gone(wanted, found, options.caller)
    if DeclaredKind.ACLS in prune and found.sees(DeclaredKind.ACLS):
        yield from _acls_gone(wanted, found, options.caller)
    if DeclaredKind.QUOTAS in prune and found.sees(DeclaredKind.QUOTAS):
        yield from _quotas_gone(wanted, found)
    if DeclaredKind.CONFIGS in prune and found.sees(DeclaredKind.CONFIGS):
        yield from _keys_gone(wanted, found)
    if DeclaredKind.TOPICS in prune and found.sees(DeclaredKind.TOPICS):
        for name, topic in sorted(found.topics.items()):
            if name not in wanted.topics:
                what = f"{topic.partitions} partitions and ALL THEIR RECORDS"
                yield ApplyStep(DeclaredKind.TOPICS, Act.DELETE, name, what, TopicGone(name))


def _acls_gone(wanted: DeclaredState, found: DeclaredState, caller: str) -> Iterator[ApplyStep | Impossible]:
    gone = found.acls - wanted.acls
    for acl in sorted(gone, key=lambda one: (one.permission is Permission.DENY, str(one))):
        if caller and acl.principal == f"User:{caller}" and acl.permission is Permission.ALLOW:
            why = (
                f"--prune would take this right of yours: {acl}; add it to the file, or `penstock acls delete` does it"
            )
            yield Impossible(DeclaredKind.ACLS, acl.principal, why)
        else:
            yield ApplyStep(DeclaredKind.ACLS, Act.DELETE, acl.principal, str(acl), AclGone(acl))


def _users_gone(wanted: DeclaredState, found: DeclaredState, caller: str) -> Iterator[ApplyStep | Impossible]:
    for name, there in sorted(found.users.items()):
        user = wanted.users.get(name)
        gone = tuple(one for one in there.mechanisms if user is None or one not in user.mechanisms)
        if gone and name == caller:
            why = f"--prune would take your own password for {', '.join(gone)}; add it to the file"
            yield Impossible(DeclaredKind.USERS, name, f"{why}, or `penstock users delete` does it")
        elif gone:
            yield ApplyStep(
                DeclaredKind.USERS, Act.DELETE, name, f"its password for {', '.join(gone)}", UserGone(name, gone)
            )


def _quotas_gone(wanted: DeclaredState, found: DeclaredState) -> Iterator[ApplyStep]:
    for entity, there in sorted(found.quotas.items(), key=lambda one: one[0].parts):
        gone = sorted(there.keys() - wanted.quotas.get(entity, {}).keys())
        if gone:
            what = ", ".join(f"{key} ({_was(there[key])})" for key in gone)
            yield ApplyStep(
                DeclaredKind.QUOTAS, Act.DELETE, str(entity), what, QuotaChanges(entity, dict.fromkeys(gone))
            )


def _keys_gone(wanted: DeclaredState, found: DeclaredState) -> Iterator[ApplyStep]:
    """Keys of what the file names; those of other topics and brokers are not its business."""
    for broker_id in sorted(wanted.configs, key=lambda one: -1 if one is None else one):
        yield from _keys_of(None, broker_id, wanted.configs[broker_id], found.configs.get(broker_id, {}))
    for name, topic in sorted(wanted.topics.items()):
        there = found.topics.get(name)
        yield from () if there is None else _keys_of(name, None, topic.config, there.config)


def _keys_of(
    topic: str | None, broker_id: int | None, wanted: Mapping[str, str], there: Mapping[str, str]
) -> Iterator[ApplyStep]:
    gone = sorted(there.keys() - wanted.keys())
    if gone:
        what = ", ".join(f"{key} (was {there[key]})" for key in gone)
        name = topic if topic is not None else _broker(broker_id)
        yield ApplyStep(
            DeclaredKind.CONFIGS, Act.DELETE, name, what, ConfigChanges(topic, broker_id, dict.fromkeys(gone))
        )


# -- words -------------------------------------------------------------------------------------------------------------


def _broker(broker_id: int | None) -> str:
    return "all brokers" if broker_id is None else f"broker {broker_id}"


def _was(value: object) -> str:
    return "not set" if value is None else f"was {_rate(value) if isinstance(value, float) else value}"


def _rate(value: float) -> str:
    """All digits that count: two rates that differ must not look alike."""
    return repr(value).removesuffix(".0")


def _topic_text(topic: DeclaredTopic) -> str:
    numbers = [
        f"{topic.partitions} partitions" if topic.partitions is not None else "",
        f"{topic.replication_factor} replicas" if topic.replication_factor is not None else "",
    ]
    words = [*filter(None, numbers), *(f"{key} = {value}" for key, value in sorted(topic.config.items()))]
    return ", ".join(words) or "the cluster's defaults"
