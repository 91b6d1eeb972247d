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
from tests.rights.stage import KNOWN_ID, LAGGING, ORDERS, RefusedCommandError, Stage, Who

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
SEES_CLUSTER: Final = ((Operation.DESCRIBE, CLUSTER),)
SEES_TOPICS: Final = ((Operation.DESCRIBE, TOPIC),)
SEES_GROUPS: Final = ((Operation.DESCRIBE, GROUP),)
DECLARED_TOPIC: Final = "[topics.own-NAME]\npartitions = 1\n"
DECLARED_ACL: Final = '[[acls]]\nprincipal = "User:u"\noperations = ["Read"]\ntopic = "own-NAME"\n'
DECLARED_QUOTA: Final = '[[quotas]]\nuser = "uNAME"\nproducer_byte_rate = 1000000\n'
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


def _applies(declared: str) -> Callable[[Stage, Who], None]:
    """`penstock apply` of a file; NAME stands for a name of its own. What cannot be done is said in a line for each
    thing, and the last line counts these."""

    def run(stage: Stage, who: Who) -> None:
        name = stage.own_name()
        file = stage.path / f"{name}.toml"
        file.write_text(declared.replace("NAME", name), encoding="utf-8")
        try:
            who.command("apply", file, "--yes")
        except RefusedCommandError as error:
            raise RefusedCommandError(str(error).rpartition("\n")[0]) from error

    return run


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
    Tool("penstock apply, a topic", _applies(DECLARED_TOPIC), _topics(Operation.CREATE)),
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


def _is_judged(*words: str) -> Callable[[Stage, Who], None]:
    """A command that a quorum of one with static voters cannot do; it works if no right is missing."""

    def run(stage: Stage, who: Who) -> None:
        try:
            who.command(*words)
        except RefusedCommandError as error:
            if " may not " in str(error):
                raise

    return run


DIRECTORY_ID: Final = "JEXY6aqzQY-32P5TStzaFg"
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
    command(ALTERS_CONFIGS, "brokers", "uncordon", "0"),
    Tool("penstock features upgrade", _is_judged("features", "upgrade", "--feature", "metadata.version=2"), ALTERS),
    Tool(
        "penstock features downgrade",
        _is_judged("features", "downgrade", "--feature", "metadata.version=1", "--dry-run"),
        ALTERS,
    ),
    Tool("penstock quorum add-voter", _is_judged("quorum", "add-voter", f"9@127.0.0.1:9:{DIRECTORY_ID}"), ALTERS),
    Tool("penstock quorum remove-voter", _is_judged("quorum", "remove-voter", f"9:{DIRECTORY_ID}", "--yes"), ALTERS),
    Tool("penstock quorum unregister", _is_judged("quorum", "unregister", "9"), ALTERS),
    Tool("penstock quorum make-dynamic", _is_judged("quorum", "make-dynamic", "--yes"), ALTERS),
    Tool("penstock apply, an ACL", _applies(DECLARED_ACL), ALTERS),
    Tool("penstock apply, a quota", _applies(DECLARED_QUOTA), ALTERS_CONFIGS),
    command((), "export"),  # without a right it says what it could not see
)


# -- a mirror ----------------------------------------------------------------------------------------------------------


def _asks(question: Callable[[AdminClient], Any]) -> Callable[[Stage, Who], None]:
    def run(stage: Stage, who: Who) -> None:
        question(AdminClient(who.librdkafka))

    return run


def _topics_listed(admin: AdminClient) -> None:
    assert admin.list_topics(timeout=LIMIT_S * 2).brokers


def _configs(admin: AdminClient) -> None:
    (described,) = admin.describe_configs([ConfigResource("topic", ORDERS)]).values()
    described.result(LIMIT_S * 2)


def _group_offsets(admin: AdminClient) -> None:
    asked = [confluent_kafka.ConsumerGroupTopicPartitions(LAGGING)]
    (found,) = admin.list_consumer_group_offsets(asked).values()
    found.result(LIMIT_S * 2)


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
    Tool("topics", _asks(_topics_listed), (), is_kafka=True),
    Tool("records", read_by_kafka_python(is_member=False), ((Operation.READ, TOPIC),), is_kafka=True),
    Tool("the topics' configuration", _asks(_configs), ((Operation.DESCRIBE_CONFIGS, TOPIC),), is_kafka=True),
    Tool("groups", _asks(_groups), (), is_kafka=True),
    Tool("the groups' offsets", _asks(_group_offsets), SEES_GROUPS, is_kafka=True),
    Tool("ACLs", _acls, SEES_CLUSTER, is_kafka=True),
)
