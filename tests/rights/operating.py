"""The tools of operators: they look, keep topics, keep users. And a mirror's calls at the cluster that it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, ConfigResource

from penstock.client.admin.admin_types import Operation, ResourceType
from tests.rights import kafka_python
from tests.rights.matrix import LIMIT_S, Key, Tool
from tests.rights.reading import read_by_kafka_python
from tests.rights.stage import KNOWN_ID, LAGGING, ORDERS, Stage, Who

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
SEES_CLUSTER: Final = ((Operation.DESCRIBE, CLUSTER),)
SEES_TOPICS: Final = ((Operation.DESCRIBE, TOPIC),)
SEES_GROUPS: Final = ((Operation.DESCRIBE, GROUP),)
SEES_IDS: Final = ((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),)


def _says(*words: str) -> Callable[[Stage, Who], None]:
    def run(stage: Stage, who: Who) -> None:
        who.command(*words)

    return run


def command(needs: tuple[Key, ...], *words: str) -> Tool:
    return Tool(f"penstock {' '.join(words)}", _says(*words), needs)


MONITOR: Final = (
    command((), "cluster", "health"),  # without the right it says what it could not see
    command((), "cluster", "describe"),
    command((), "brokers", "list"),
    command(SEES_CLUSTER, "quorum", "describe"),
    command(SEES_CLUSTER, "features", "describe"),
    command(SEES_CLUSTER, "log-dirs", "describe"),
    command((), "topics", "list"),
    command(SEES_TOPICS, "topics", "describe", ORDERS),
    command(SEES_TOPICS, "topics", "offsets", ORDERS),
    command((), "groups", "list"),
    command(SEES_GROUPS, "groups", "describe", LAGGING),
    command((), "transactions", "list"),
    command(SEES_IDS, "transactions", "describe", KNOWN_ID),
    command((), "acls", "roles"),
)


# -- topics ------------------------------------------------------------------------------------------------------------


def _own_topic(stage: Stage) -> str:
    name = f"own-{stage.own_name()}"
    stage.admin.create_topic(name, 1)
    return name


def _of_own_topic(*words: str) -> Callable[[Stage, Who], None]:
    """A command about a topic that was made for it; TOPIC stands for its name."""

    def run(stage: Stage, who: Who) -> None:
        name = _own_topic(stage)
        who.command(*(name if word == "TOPIC" else word for word in words))

    return run


def _create(stage: Stage, who: Who) -> None:
    who.command("topics", "create", f"own-{stage.own_name()}", "-p", "1")


def _topics(operation: Operation) -> tuple[Key, ...]:
    return ((operation, TOPIC),)


TOPIC_ADMIN: Final = (
    Tool("penstock topics create", _create, _topics(Operation.CREATE)),
    Tool("penstock topics alter", _of_own_topic("topics", "alter", "TOPIC", "-p", "2"), _topics(Operation.ALTER)),
    Tool("penstock topics describe", _of_own_topic("topics", "describe", "TOPIC"), ()),
    Tool("penstock topics delete", _of_own_topic("topics", "delete", "TOPIC"), _topics(Operation.DELETE)),
    Tool(
        "penstock topics delete-records",
        _of_own_topic("topics", "delete-records", "TOPIC", "--all"),
        _topics(Operation.DELETE),
    ),
    Tool(
        "penstock configs alter",
        _of_own_topic("configs", "alter", "TOPIC", "--set", "retention.ms=1000000"),
        _topics(Operation.ALTER_CONFIGS),
    ),
    Tool(
        "penstock configs describe",
        _of_own_topic("configs", "describe", "TOPIC", "--all"),
        _topics(Operation.ALTER_CONFIGS),
    ),
    command((), "export"),
)


# -- users -------------------------------------------------------------------------------------------------------------

ALTERS: Final = ((Operation.ALTER, CLUSTER),)
ALTERS_CONFIGS: Final = ((Operation.ALTER_CONFIGS, CLUSTER),)


def _add_user(stage: Stage, who: Who) -> None:
    who.command(
        "users", "add", f"u{stage.own_name()}", "--new-password-file", who.password_file, "--iterations", "4096"
    )


def _delete_user(stage: Stage, who: Who) -> None:
    name = f"u{stage.own_name()}"
    stage.user(name)
    who.command("users", "delete", name)


USER_ADMIN: Final = (
    Tool("penstock users create", _add_user, ALTERS),
    Tool("penstock users delete", _delete_user, ALTERS),
    command(ALTERS, "users", "list"),
    command(ALTERS, "acls", "add", "User:u", "--producer", "--topic", "t"),
    command(ALTERS, "acls", "list"),
    command((*ALTERS, *ALTERS_CONFIGS), "acls", "test", "User:u", "write", "--topic", "t"),
    command(ALTERS, "acls", "remove", "User:nobody", "--all"),
    command(ALTERS_CONFIGS, "quotas", "set", "--user", "u", "--producer-byte-rate", "1000000"),
    command(ALTERS_CONFIGS, "quotas", "list"),
    command(ALTERS_CONFIGS, "quotas", "remove", "--user", "u"),
    command(ALTERS_CONFIGS, "brokers", "cordon", "0", "--dry-run"),
    command((), "export"),  # without a right it says what it could not see
)


# -- a mirror ----------------------------------------------------------------------------------------------------------


def _asks(question: Callable[[AdminClient], Any]) -> Callable[[Stage, Who], None]:
    def run(stage: Stage, who: Who) -> None:
        question(AdminClient(who.librdkafka))

    return run


def _topics_told(admin: AdminClient) -> None:
    assert admin.list_topics(timeout=LIMIT_S * 2).brokers


def _configs(admin: AdminClient) -> None:
    (told,) = admin.describe_configs([ConfigResource("topic", ORDERS)]).values()
    told.result(LIMIT_S * 2)


def _group_offsets(admin: AdminClient) -> None:
    asked = [confluent_kafka.ConsumerGroupTopicPartitions(LAGGING)]
    (told,) = admin.list_consumer_group_offsets(asked).values()
    told.result(LIMIT_S * 2)


def _groups(admin: AdminClient) -> None:
    admin.list_consumer_groups().result(LIMIT_S * 2)


def _acls(stage: Stage, who: Who) -> None:
    """By kafka-python: librdkafka takes a refusal for an empty list."""
    admin = kafka_python.KafkaAdminClient(**who.kafka_python)
    try:
        of_topics = kafka_python.ResourcePatternFilter(
            kafka_python.ResourceType.TOPIC, None, kafka_python.ACLResourcePatternType.ANY
        )
        admin.describe_acls(
            kafka_python.ACLFilter(
                None, None, kafka_python.ACLOperation.ANY, kafka_python.ACLPermissionType.ANY, of_topics
            )
        )
    finally:
        admin.close()


MIRROR_SOURCE: Final = (
    Tool("topics", _asks(_topics_told), (), is_kafka=True),
    Tool("records", read_by_kafka_python(is_member=False), ((Operation.READ, TOPIC),), is_kafka=True),
    Tool("the topics' configuration", _asks(_configs), ((Operation.DESCRIBE_CONFIGS, TOPIC),), is_kafka=True),
    Tool("groups", _asks(_groups), (), is_kafka=True),
    Tool("the groups' offsets", _asks(_group_offsets), SEES_GROUPS, is_kafka=True),
    Tool("ACLs", _acls, SEES_CLUSTER, is_kafka=True),
)
