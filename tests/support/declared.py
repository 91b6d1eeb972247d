"""Clusters as values for tests of declared states: drawn ones, and a plan that is done on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from penstock.declared.plan import (
    AclGone,
    ApplyPlan,
    Change,
    ConfigChanges,
    MorePartitions,
    NewAcl,
    Password,
    QuotaChanges,
    TopicGone,
    TopicMade,
    UserGone,
)
from penstock.declared.reading import MECHANISMS
from penstock.declared.state import DeclaredState, DeclaredTopic, DeclaredUser
from penstock.messages.security.acl_rules import OPERATIONS
from penstock.messages.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourceType
from penstock.messages.security.quotas import ADDRESS_KEYS, QUOTA_KEYS, QuotaEntity

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=6)
NAMES = st.sampled_from(["orders", "a.b", "x-1", "Z_", "0"])
VALUES = TEXTS.map(str.strip)
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy", "x"]), VALUES, max_size=3)


def _topic(name: str, partitions: int, factor: int, config: Mapping[str, str]) -> DeclaredTopic:
    return DeclaredTopic(name, partitions, factor, config)


TOPICS = st.builds(_topic, NAMES, st.integers(1, 5), st.integers(1, 3), CONFIGS)
USERS = st.builds(
    DeclaredUser,
    st.sampled_from(["anna", "bob", 'q"uote', "ü"]),
    st.sets(st.sampled_from(MECHANISMS), min_size=1).map(lambda found: tuple(sorted(found))),
    password_env=st.just("P"),
)


def _operations(kind: ResourceType) -> st.SearchStrategy[Operation]:
    return st.sampled_from(sorted(OPERATIONS[kind]))


ACLS = st.one_of(
    *(
        st.builds(
            AclBinding,
            st.just(kind),
            TEXTS,
            st.sampled_from(["User:anna", "User:*", "User:ü"]),
            _operations(kind),
            st.sampled_from([Permission.ALLOW, Permission.DENY]),
            st.sampled_from(["*", "10.0.0.1"]),
            st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    ),
    st.builds(
        AclBinding,
        st.just(ResourceType.CLUSTER),
        st.just(CLUSTER_NAME),
        st.just("User:anna"),
        _operations(ResourceType.CLUSTER),
    ),
)
RATES = st.floats(0.001, 1e12)


def _quotas(draw: Any) -> dict[QuotaEntity, dict[str, float]]:
    found = {}
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            entity = QuotaEntity(ip=draw(st.sampled_from(["", "10.0.0.1"])))
            values = {key: draw(RATES) for key in ADDRESS_KEYS}
        else:
            user, client = draw(st.sampled_from([("anna", None), ("", None), (None, "c"), ("ü", ""), ("anna", "c")]))
            entity = QuotaEntity(user, client)
            values = draw(st.dictionaries(st.sampled_from(list(QUOTA_KEYS)), RATES, min_size=1))
        found[entity] = values
    return found


@st.composite
def clusters(draw: Any) -> DeclaredState:
    """A cluster as it may be found. Users have a variable with their password, so that each may be wanted, too."""
    return DeclaredState(
        topics={topic.name: topic for topic in draw(st.lists(TOPICS, max_size=4))},
        configs=draw(st.dictionaries(st.sampled_from([None, 1, 2]), CONFIGS.filter(bool), max_size=2)),
        users={user.name: user for user in draw(st.lists(USERS, max_size=3))},
        acls=draw(st.frozensets(ACLS, max_size=4)),
        quotas=_quotas(draw),
    )


def without_passwords(state: DeclaredState) -> DeclaredState:
    """As a cluster tells its users."""
    return replace(state, users={name: DeclaredUser(name, user.mechanisms) for name, user in state.users.items()})


def after(found: DeclaredState, plan: ApplyPlan, steps: int | None = None) -> DeclaredState:
    """The cluster once the first steps of the plan are done."""
    for step in plan.steps[:steps]:
        found = _done(found, step.change)
    return found


def _done(state: DeclaredState, change: Change) -> DeclaredState:
    topics, configs, users = dict(state.topics), dict(state.configs), dict(state.users)
    acls, quotas = set(state.acls), dict(state.quotas)
    match change:
        case TopicMade(topic):
            made = replace(topic, partitions=topic.partitions or 1, replication_factor=topic.replication_factor or 1)
            topics.setdefault(topic.name, made)
        case MorePartitions(name, total):
            topics[name] = replace(topics[name], partitions=max(total, topics[name].partitions or 0))
        case TopicGone(name):
            topics.pop(name, None)
        case ConfigChanges(None, broker_id, changes):
            configs[broker_id] = _changed(configs.get(broker_id, {}), changes)
            configs = {id_: config for id_, config in configs.items() if config}
        case ConfigChanges(str(name), _, changes):
            topics[name] = replace(topics[name], config=_changed(topics[name].config, changes))
        case QuotaChanges(entity, changes):
            quotas[entity] = _changed(quotas.get(entity, {}), changes)
            quotas = {entity: values for entity, values in quotas.items() if values}
        case NewAcl(acl):
            acls.add(acl)
        case AclGone(acl):
            acls.discard(acl)
        case Password(user, mechanisms):
            has = users[user.name].mechanisms if user.name in users else ()
            users[user.name] = DeclaredUser(user.name, tuple(sorted({*has, *mechanisms})))
        case UserGone(name, mechanisms):
            left = tuple(one for one in users[name].mechanisms if one not in mechanisms)
            users[name] = DeclaredUser(name, left)
            users = {name: user for name, user in users.items() if user.mechanisms}
    return replace(state, topics=topics, configs=configs, users=users, acls=frozenset(acls), quotas=quotas)


def _changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**values, **changes}.items() if value is not None}
