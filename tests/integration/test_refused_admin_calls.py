"""Every call of Admin that a user may not make ends at once, with the error of the right that is missing.

A refusal may not be asked for again until a time limit, nor be waited for as a change: that hides it behind an error
about something else. Two users try all calls, one without rights, and one that may describe everything, so that its
client knows of metadata that refusals could be compared with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Admin, TopicPartition
from penstock.client.admin.admin_types import (
    AclBinding,
    AclFilter,
    Operation,
    QuotaEntity,
    ResourceType,
    UserScramCredentialDeletion,
)
from penstock.errors import AuthorizationFailedError
from penstock.messages.topics import NewTopic
from tests.rights.matrix import LIMIT_S
from tests.rights.stage import KNOWN_ID, LAGGING, ORDERS, Stage, Who, staged

T0 = TopicPartition(ORDERS, 0)
NEW_ACL = AclBinding(ResourceType.TOPIC, "t", "User:u", Operation.READ)
TIMEOUT_MS = 15_000
"""Far above LIMIT_S, which the test measures."""

CHANGES: dict[str, Callable[[Admin], Any]] = {
    "create_topic": lambda admin: admin.create_topic("new"),
    "create_topics": lambda admin: admin.create_topics([NewTopic("new")]),
    "create_partitions": lambda admin: admin.create_partitions(ORDERS, 9),
    "create_partitions_of_topics": lambda admin: admin.create_partitions_of_topics({ORDERS: 9}),
    "delete_topics": lambda admin: admin.delete_topics([ORDERS]),
    "check_may_alter_cluster": lambda admin: admin.check_may_alter_cluster(),
    "delete_topic": lambda admin: admin.delete_topic(ORDERS),
    "delete_records": lambda admin: admin.delete_records({T0: 1}),
    "elect_leaders": lambda admin: admin.elect_leaders([T0]),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments({T0: [0]}),
    "alter_replica_log_dirs": lambda admin: admin.alter_replica_log_dirs(0, {T0: "/nowhere"}),
    "alter_topic_config": lambda admin: admin.alter_topic_config(ORDERS, {"retention.ms": 1}),
    "alter_topic_configs": lambda admin: admin.alter_topic_configs({ORDERS: {"retention.ms": 1}}),
    "alter_broker_config": lambda admin: admin.alter_broker_config(None, {"log.retention.ms": 1}),
    "alter_client_metrics": lambda admin: admin.alter_client_metrics("tills", {"interval.ms": 1_000}),
    "alter_client_quotas": lambda admin: admin.alter_client_quotas({QuotaEntity("u"): {"producer_byte_rate": 1}}),
    "alter_user_scram_credentials": lambda admin: admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("u", "SCRAM-SHA-256")]
    ),
    "create_acls": lambda admin: admin.create_acls([NEW_ACL]),
    "delete_acls": lambda admin: admin.delete_acls([AclFilter(principal="User:u")]),
    "alter_group_offsets": lambda admin: admin.alter_group_offsets(LAGGING, {T0: 0}),
    "reset_group_offsets": lambda admin: admin.reset_group_offsets(LAGGING, to="earliest"),
    "delete_group_offsets": lambda admin: admin.delete_group_offsets(LAGGING, [T0]),
    "delete_groups": lambda admin: admin.delete_groups([LAGGING]),
    "fence_producer": lambda admin: admin.fence_producer(KNOWN_ID),
    "abort_hanging_transaction": lambda admin: admin.abort_hanging_transaction(T0, 0),
    "unregister_broker": lambda admin: admin.unregister_broker(9),
    "add_voter": lambda admin: admin.add_voter(9, "D" * 22, "h:9193"),
    "remove_voter": lambda admin: admin.remove_voter(9, "D" * 22),
    "unregister_controller": lambda admin: admin.unregister_controller(9),
    "make_quorum_dynamic": lambda admin: admin.make_quorum_dynamic(),
    "upgrade_features": lambda admin: admin.upgrade_features({"metadata.version": 2}),
    "downgrade_features": lambda admin: admin.downgrade_features({"metadata.version": 1}),
    "describe_topic_config": lambda admin: admin.describe_topic_config(ORDERS),
    "describe_broker_config": lambda admin: admin.describe_broker_config(0),
    "describe_client_metrics": lambda admin: admin.describe_client_metrics("tills"),
    "describe_client_quotas": lambda admin: admin.describe_client_quotas(),
    "describe_producers": lambda admin: admin.describe_producers([T0]),
    "find_hanging_transactions": lambda admin: admin.find_hanging_transactions([T0]),
}
"""The calls that need more than DESCRIBE."""
QUESTIONS: dict[str, Callable[[Admin], Any]] = {
    "describe_topic": lambda admin: admin.describe_topic(ORDERS),
    "list_offsets": lambda admin: admin.list_offsets([T0]),
    "describe_quorum": lambda admin: admin.describe_quorum(),
    "describe_features": lambda admin: admin.describe_features(),
    "describe_metadata": lambda admin: admin.describe_metadata(),
    "metadata_digests": lambda admin: admin.metadata_digests(),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "describe_acls": lambda admin: admin.describe_acls(),
    "describe_user_scram_credentials": lambda admin: admin.describe_user_scram_credentials(),
    "describe_group": lambda admin: admin.describe_group(LAGGING),
    "describe_groups": lambda admin: admin.describe_groups([LAGGING]),
    "group_lag": lambda admin: admin.group_lag(LAGGING),
    "group_lags": lambda admin: admin.group_lags([LAGGING]),
    "group_offsets": lambda admin: admin.group_offsets(LAGGING),
    "describe_transaction": lambda admin: admin.describe_transaction(KNOWN_ID),
    "describe_transactions": lambda admin: admin.describe_transactions([KNOWN_ID]),
}
"""The calls that need to DESCRIBE something."""
LISTS: dict[str, Callable[[Admin], Any]] = {
    "list_topics": lambda admin: admin.list_topics(),
    "describe_topics": lambda admin: admin.describe_topics(),
    "cluster_health": lambda admin: admin.cluster_health(),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "describe_brokers": lambda admin: admin.describe_brokers(),
    "list_groups": lambda admin: admin.list_groups(),
    "list_transactions": lambda admin: admin.list_transactions(),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "reassignment_progress": lambda admin: admin.reassignment_progress(),
}
"""The calls that leave out what their user may not see."""
NEEDY: dict[str, Callable[[Admin], Any]] = {**CHANGES, **QUESTIONS}
LOOKS: dict[str, Callable[[Admin], Any]] = {**QUESTIONS, **LISTS}
OF_THE_CLIENT = {"close", "metrics", "statistics", "waiting_for"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.fixture(scope="module")
def nobody(stage: Stage) -> Iterator[Admin]:
    yield from admin_of(stage.user("nobody"))


@pytest.fixture(scope="module")
def looker(stage: Stage) -> Iterator[Admin]:
    who = stage.user("looker")
    every = [(kind, "*") for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)]
    stage.allow(
        who,
        [
            AclBinding(kind, name, who.principal, Operation.DESCRIBE)
            for kind, name in (*every, (ResourceType.CLUSTER, "kafka-cluster"))
        ],
    )
    yield from admin_of(who)


def admin_of(who: Who) -> Iterator[Admin]:
    with Admin(who.bootstrap, **who.options, default_api_timeout_ms=TIMEOUT_MS) as admin:
        admin.describe_cluster()
        admin.list_topics()
        yield admin


def refused(admin: Admin, call: Callable[[Admin], Any]) -> bool:
    """True if a right was missing: the call raises that, or its result has it for each part."""
    began = time.monotonic()
    try:
        answer = call(admin)
    except AuthorizationFailedError:
        answer = None
    assert time.monotonic() - began < LIMIT_S
    if answer is None:
        return True
    parts = list(answer.values()) if isinstance(answer, dict) else answer if isinstance(answer, tuple) else ()
    errors = [getattr(part, "error", part) for part in parts]
    return bool(errors) and all(map(is_refusal, errors))


def is_refusal(error: object) -> bool:
    return isinstance(error, AuthorizationFailedError) or (isinstance(error, str) and " may not " in error)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_refused_at_once_to_who_may_look(looker: Admin, name: str) -> None:
    assert refused(looker, CHANGES[name])


@pytest.mark.parametrize("name", NEEDY)
def test_anything_is_refused_at_once_to_who_has_no_rights(nobody: Admin, name: str) -> None:
    assert refused(nobody, NEEDY[name])


@pytest.mark.parametrize("name", LOOKS)
def test_a_question_is_answered_to_who_may_look(looker: Admin, name: str) -> None:
    assert not refused(looker, LOOKS[name])


@pytest.mark.parametrize("name", LISTS)
def test_a_list_leaves_out_what_one_may_not_see(nobody: Admin, name: str) -> None:
    assert not refused(nobody, LISTS[name])


def test_every_call_of_admin_is_tried() -> None:
    calls = {name for name, value in vars(Admin).items() if callable(value) and not name.startswith("_")}
    assert calls - OF_THE_CLIENT == {*CHANGES, *QUESTIONS, *LISTS}
