"""`penstock topics create|alter|delete`: changes of topics, several in one command, each with `--dry-run`.

The topics of a command are changed one after the other, in their order; at the first that is refused the command ends,
and says which were done. Not here: what is read of topics (topics.py), and their records (records.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.edge.several import only_or_all, telling_what_was_done
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic, parse_pairs
from penstock.cli.output import print_json, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import (
    ConfigError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from penstock.written.numbers import INT32_MAX, parse_number

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import TopicDescription

CLUSTER_DEFAULT = -1
Topics = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics.", autocompletion=complete_topic)]
ReplicaAssignment = Annotated[
    str,
    typer.Option(
        metavar="B:B:…,…",
        help="The brokers of each partition, the preferred leader first; partitions have commas between them, like"
        " 1:2:3,2:3:1. Without it the cluster chooses, and keeps racks apart.",
    ),
]


def create(
    names: Topics,
    partitions: Annotated[
        int, typer.Option("-p", "--partitions", min=-1, max=INT32_MAX, help="-1: the cluster's default.")
    ] = CLUSTER_DEFAULT,
    replicas: Annotated[
        int, typer.Option("-r", "--replicas", min=-1, max=INT32_MAX, help="-1: the cluster's default.")
    ] = CLUSTER_DEFAULT,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "-c",
            "--config",
            metavar="KEY=VALUE",
            help="A topic config, like retention.ms=86400000; `penstock configs describe TOPIC --all` lists them."
            " May be repeated.",
        ),
    ] = None,
    replica_assignment: ReplicaAssignment = "",
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic that is there already as it is; that is no error.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create topics. All of one command have the same partitions, replicas and configs."""
    pairs, by_hand = parse_pairs(config or []), parse_assignment(replica_assignment)
    shown = []
    with patient_admin(bootstrap) as admin, telling_what_was_done() as done:
        for name in dict.fromkeys(names):
            is_new = True
            try:
                topic = admin.create_topic(
                    name, partitions, replicas, pairs, assignments=by_hand, validate_only=dry_run
                )
            except TopicExistsError:
                if not if_not_exists:
                    raise
                is_new, topic = False, admin.describe_topic(name)
            done += [f"created {name}"] if is_new and not dry_run else []
            shown.append({**topic_json(topic), "created": is_new and not dry_run, "dry_run": dry_run})
            if not as_json:
                say(_text(topic, is_new=is_new, dry_run=dry_run))
    if as_json:
        print_json(only_or_all(shown))


def _text(topic: TopicDescription, *, is_new: bool, dry_run: bool) -> str:
    if is_new and dry_run:
        return f"{topic.name} could be created; nothing was changed"
    counts = f"{topic.partition_count} partitions, {topic.replication_factor} replicas, id {topic.topic_id}"
    return f"created {topic.name}: {counts}" if is_new else f"{topic.name} is there already: {counts}"


def alter(
    names: Topics,
    partitions: Annotated[
        int,
        typer.Option(
            "-p", "--partitions", min=1, max=INT32_MAX, help="How many each is to have, with those that are there."
        ),
    ],
    replica_assignment: ReplicaAssignment = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say whether it could be done; change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Add partitions to topics. They cannot be removed, and a key may go to another partition than before."""
    by_hand = parse_assignment(replica_assignment)
    shown = []
    with patient_admin(bootstrap) as admin, telling_what_was_done() as done:
        for name in dict.fromkeys(names):
            topic = admin.create_partitions(name, partitions, by_hand, validate_only=dry_run)
            done += [] if dry_run else [f"altered {name}"]
            shown.append({**topic_json(topic), "dry_run": dry_run})
            if as_json:
                continue
            if dry_run:
                has = f"it has {topic.partition_count}, and nothing was changed"
                say(f"{name} could have {partitions} partitions; {has}")
            else:
                say(f"altered {name}: {topic.partition_count} partitions")
    if as_json:
        print_json(only_or_all(shown))


def delete(
    names: Topics,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="It is no error that a topic is not there.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete topics and all their records. At a terminal it shows what goes, and asks."""
    with patient_admin(bootstrap) as admin:
        found = {name: _described(admin, name, if_exists) for name in dict.fromkeys(names)}
    there = [topic for topic in found.values() if topic is not None]
    plan = [f"{topic.name}: {topic.partition_count} partitions, id {topic.topic_id}" for topic in there]
    if there and not dry_run:
        agree(plan, f"Delete {', '.join(topic.name for topic in there)} and all records of them?", yes=yes)
    with patient_admin(bootstrap) as admin, telling_what_was_done() as done:
        for topic in () if dry_run else there:
            admin.delete_topic(topic.name, missing_ok=if_exists)
            done.append(f"deleted {topic.name}")
            if not as_json:
                say(f"deleted {topic.name}")
    if as_json:
        gone = [{"deleted": topic.name, "dry_run": dry_run} for topic in there]
        print_json(only_or_all(gone))
        return
    for line in plan if dry_run else ():
        say(f"would delete {line}")
    for name in (name for name, topic in found.items() if topic is None):
        say(f"{name} does not exist; there is nothing to delete")


def _described(admin: Admin, name: str, if_exists: bool) -> TopicDescription | None:
    try:
        return admin.describe_topic(name)
    except UnknownTopicOrPartitionError:
        if not if_exists:
            raise
        return None


def parse_assignment(text: str) -> list[list[int]] | None:
    """The brokers of each partition, of Kafka's text for them; None of an empty one. ConfigError for any other text."""
    if not text:
        return None
    partitions: list[list[int]] = []
    for partition in text.split(","):
        ids = [parse_number(broker, INT32_MAX) for broker in partition.split(":")]
        partitions.append([broker for broker in ids if broker is not None])
        if None in ids:
            raise ConfigError(
                f"--replica-assignment {text}: must be the ids of brokers, like 1:2:3,2:3:1 for two partitions"
            )
    return partitions


def topic_json(topic: TopicDescription) -> dict[str, Any]:
    """A topic for scripts."""
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "config": dict(topic.config),
        "metadata_age_ms": topic.metadata_age_ms,
        "partitions": [
            {
                "partition": p.partition,
                "leader_id": p.leader_id,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "elr": list(p.elr),
                "log_dirs": list(p.log_dirs),
                "error": None if p.error is None else str(p.error),
            }
            for p in topic.partitions
        ],
    }
