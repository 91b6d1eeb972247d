"""The arguments that the commands about groups share, and the parser of `TOPIC[:P,…]`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.edge.numbers import INT32_MAX, parse_number
from penstock.cli.options import COMPLETION_TIMEOUT_MS, DEFAULT_BOOTSTRAP
from penstock.errors import ConfigError, PenstockError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.types import TopicPartition


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """The groups whose id begins so, for the shell; none where no broker answers soon."""
    from penstock import Admin

    bootstrap = context.params.get("bootstrap") or os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP)
    limit_ms = COMPLETION_TIMEOUT_MS
    try:
        with Admin(bootstrap, bootstrap_timeout_ms=limit_ms, default_api_timeout_ms=limit_ms) as admin:
            return [group.group_id for group in admin.list_groups() if group.group_id.startswith(incomplete)]
    except PenstockError:
        return []


GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=complete_group)]
GroupIds = Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups.", autocompletion=complete_group)]
GroupTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:P,…]",
        help="A topic, or only these partitions of it: orders:0,2. May be repeated.",
    ),
]


def parse_topics(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The partitions of each topic, none for all of them; ConfigError says what is wrong, and how it should look."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        parsed = [parse_number(number, INT32_MAX) for number in numbers.split(",")] if colon else []
        partitions = tuple(number for number in parsed if number is not None)
        if not topic or len(partitions) != len(parsed):
            raise ConfigError(f"--topic {text}: must be a topic, or a topic and partitions of it, like orders:0,2")
        if topic in found:
            raise ConfigError(f"--topic {text}: {topic} is given twice; name its partitions together, like {topic}:0,2")
        found[topic] = tuple(dict.fromkeys(partitions))
    return found


def partitions_of(admin: Admin, topics: dict[str, tuple[int, ...]]) -> list[TopicPartition]:
    """The partitions that are meant; UnknownTopicOrPartitionError for a topic that does not exist."""
    from penstock import TopicPartition

    found: list[TopicPartition] = []
    for topic, numbers in topics.items():
        every = numbers or [info.partition for info in admin.describe_topic(topic).partitions]
        found += [TopicPartition(topic, number) for number in every]
    return found
