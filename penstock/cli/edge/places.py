"""Topics and partitions as a user names them, for every command alike.

    orders        a topic, with all its partitions
    orders:0,2    these partitions of it
    orders:0      one partition; orders-0 is the same where a command takes partitions alone

A name of a topic may have a dash and a number in it, and never a colon: so where topics are taken, too, `orders-0` is
the topic of that name. Not here: which of them exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import complete_topic
from penstock.errors import ConfigError
from penstock.written.numbers import INT32_MAX, parse_number

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.types import TopicPartition

Places = dict[str, tuple[int, ...]]
"""The partitions of each topic; none stands for all of them."""

PlaceNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOPIC[:P,…]]...",
        help="Topics, or only some partitions of them: orders payments:0,2.",
        autocompletion=complete_topic,
    ),
]
OnlyPartitions = Annotated[
    list[int] | None,
    typer.Option(
        "-p",
        "--partition",
        metavar="N",
        min=0,
        max=INT32_MAX,
        help="Only this partition of the one topic, as orders:N; may be repeated.",
    ),
]


def parse_places(texts: Sequence[str], option: str = "", partitions: Iterable[int] | None = None) -> Places:
    """The partitions of each topic; `partitions` are those of -p. ConfigError says what is wrong, and how it should
    look; `option` is the name before the text."""
    found: Places = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        parsed = [parse_number(number, INT32_MAX) for number in numbers.split(",")] if colon else []
        of_topic = tuple(number for number in parsed if number is not None)
        given = f"{option} {text}".strip()
        if not topic or len(of_topic) != len(parsed):
            raise ConfigError(f"{given}: must be a topic, or a topic and partitions of it, like orders:0,2")
        if topic in found and (found[topic] or of_topic):
            raise ConfigError(f"{given}: {topic} is given twice; name its partitions together, like {topic}:0,2")
        found[topic] = tuple(dict.fromkeys(of_topic))
    chosen = tuple(dict.fromkeys(partitions or ()))
    if chosen and (len(found) != 1 or any(found.values())):
        raise ConfigError("-p needs exactly one topic, because partitions are its own; or write orders:0 payments:0,2")
    return dict.fromkeys(found, chosen) if chosen else found


def parse_partition(text: str) -> TopicPartition | None:
    """One partition, orders:0 or orders-0; None for a text that is neither."""
    from penstock import TopicPartition

    topic, _, number = text.rpartition(":" if ":" in text else "-")
    partition = parse_number(number, INT32_MAX)
    return None if not topic or ":" in topic or partition is None else TopicPartition(topic, partition)


def places_or_all(names: Sequence[str] | None, partitions: Iterable[int] | None, everything: bool) -> Places:
    """The topics and partitions that a command is about; none for `--all`. ConfigError where it does not say which."""
    found = parse_places(names or (), "", partitions)
    if everything == bool(found):
        raise ConfigError("give either topics or --all")
    return found


def partitions_of(admin: Admin, places: Places) -> list[TopicPartition]:
    """The partitions that are meant; UnknownTopicOrPartitionError for a topic that does not exist."""
    from penstock import TopicPartition

    found: list[TopicPartition] = []
    for topic, numbers in places.items():
        every = numbers or [info.partition for info in admin.describe_topic(topic).partitions]
        found += [TopicPartition(topic, number) for number in every]
    return found
