"""Creates topics, changes their configuration, and deletes them."""

from __future__ import annotations

from typing import Final

from penstock.console.change import ChangeField, ChangePlan, ConsoleChange, pairs_of, shell_command, text_lines
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked, address_of
from penstock.written.numbers import INT32_MAX

CLUSTER_DEFAULT: Final = -1
NAME: Final = ChangeField("name", "Topic", is_needed=True)


def _counts(fields: Fields) -> tuple[int, int]:
    """Partitions and replicas; -1 is the cluster's default."""
    partitions = fields.number("partitions", CLUSTER_DEFAULT, -1, INT32_MAX)
    return partitions, fields.number("replicas", CLUSTER_DEFAULT, -1, INT32_MAX)


async def _plan_create(asked: PageAsked) -> ChangePlan:
    name, (partitions, replicas) = asked.fields.text("name"), _counts(asked.fields)
    configs = pairs_of(asked.fields, "configs")
    await asked.admin.create_topic(name, partitions, replicas, configs, validate_only=True)
    words = ["topics", "create"]
    words += [] if partitions == CLUSTER_DEFAULT else ["-p", str(partitions)]
    words += [] if replicas == CLUSTER_DEFAULT else ["-r", str(replicas)]
    words += [word for key, value in configs.items() for word in ("-c", f"{key}={value}")]
    counted = (
        "the cluster's default of partitions" if partitions == CLUSTER_DEFAULT else f"{partitions} partitions",
        "its default of replicas" if replicas == CLUSTER_DEFAULT else f"{replicas} replicas",
    )
    return ChangePlan(
        f"Topic {name} is made, with {' and '.join(counted)}.",
        shell_command(asked, words, [name]),
        tuple(f"{key}={value}" for key, value in configs.items()),
    )


async def _create(asked: PageAsked) -> str:
    name, (partitions, replicas) = asked.fields.text("name"), _counts(asked.fields)
    await asked.admin.create_topic(name, partitions, replicas, pairs_of(asked.fields, "configs"))
    return address_of("/topic", name=name)


def _config_changes(fields: Fields) -> dict[str, str | None]:
    """The keys to set, and those to return to their default (None)."""
    changes: dict[str, str | None] = {**pairs_of(fields, "set")}
    for line in text_lines(fields, "unset"):
        key = line.strip()
        if key in changes or "=" in key:
            raise FieldError("unset", f"{key[:64]!r} must be a key alone, and not one that is set")
        changes[key] = None
    if not changes:
        raise FieldError("set", "nothing to change; give key=value, or a key to unset")
    return changes


async def _plan_configs(asked: PageAsked) -> ChangePlan:
    name, changes = asked.fields.text("name"), _config_changes(asked.fields)
    now = await asked.admin.describe_topic_config(name)
    await asked.admin.alter_topic_config(name, changes, validate_only=True)
    words = ["configs", "alter"]
    for key, value in changes.items():
        words += ["--unset", key] if value is None else ["--set", f"{key}={value}"]

    def line(key: str, value: str | None) -> str:
        before = f"{now[key].value} ({now[key].source})" if key in now else "not set"
        return f"{key}: {before} → {'its default' if value is None else value}"

    lines = tuple(line(key, value) for key, value in changes.items())
    return ChangePlan(
        f"{len(changes)} keys of topic {name} change, all or none.",
        shell_command(asked, words, [name]),
        lines,
        must_hold=lines,
    )


async def _alter_configs(asked: PageAsked) -> str:
    name = asked.fields.text("name")
    await asked.admin.alter_topic_config(name, _config_changes(asked.fields))
    return address_of("/topic", name=name)


async def _plan_delete(asked: PageAsked) -> ChangePlan:
    name = asked.fields.text("name")
    topic = await asked.admin.describe_topic(name)
    lines = (f"{topic.partition_count} partitions, id {topic.topic_id}",)
    return ChangePlan(
        f"Topic {name} and all its records are deleted. It cannot be undone.",
        shell_command(asked, ["topics", "delete", "--yes"], [name]),
        lines,
        confirm=name,
        must_hold=lines,
    )


async def _delete(asked: PageAsked) -> str:
    await asked.admin.delete_topic(asked.fields.text("name"))
    return "/topics"


TOPIC_CHANGES: Final = (
    ConsoleChange(
        "/create-topic",
        "Create a topic",
        (
            NAME,
            ChangeField("partitions", "Partitions", "empty: the cluster's default", "number"),
            ChangeField("replicas", "Replicas", "empty: the cluster's default", "number"),
            ChangeField("configs", "Configuration", "key=value, one a line", "lines"),
        ),
        _plan_create,
        _create,
    ),
    ConsoleChange(
        "/alter-topic",
        "Change a topic's configuration",
        (
            NAME,
            ChangeField("set", "Set", "key=value, one a line", "lines"),
            ChangeField("unset", "Unset", "keys that return to their default, one a line", "lines"),
        ),
        _plan_configs,
        _alter_configs,
    ),
    ConsoleChange("/delete-topic", "Delete a topic", (NAME,), _plan_delete, _delete),
)
