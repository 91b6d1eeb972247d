"""`penstock topics create|alter|list|describe|delete`; `offsets` and `delete-records` are in records.py."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.numbers import INT32_MAX, parse_number
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName, complete_topic, parse_pairs
from penstock.cli.output import count, note, print_fields, print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.cli.records import delete_records, offsets, producers
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.admin.admin_types import PartitionInfo, TopicDescription

app = typer.Typer(
    help="Create, alter, list, describe and delete topics; show their offsets; delete their records.",
    no_args_is_help=True,
)

CLUSTER_DEFAULT = -1
PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "elr")
NOT_ASSIGNED = "?"
"""Stands for a log dir. The broker has not yet told the controller where the replica is."""
ReplicaAssignment = Annotated[
    str,
    typer.Option(
        metavar="B:B:…,…",
        help="The brokers of each partition, the preferred leader first; partitions have commas between them, like"
        " 1:2:3,2:3:1. Without it the cluster chooses, and keeps racks apart.",
    ),
]
METADATA_OLD_MS = 3_000
"""A broker hears from the quorum several times a second; an election takes less than this."""


@app.command()
def create(
    name: TopicName,
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    pairs, by_hand = parse_pairs(config or []), parse_assignment(replica_assignment)
    with patient_admin(bootstrap) as admin:
        topic = admin.create_topic(name, partitions, replicas, pairs, assignments=by_hand)
    if as_json:
        print_json(_topic_json(topic))
    else:
        counts = f"{topic.partition_count} partitions, {topic.replication_factor} replicas"
        say(f"created {name}: {counts}, id {topic.topic_id}")


@app.command()
def alter(
    name: TopicName,
    partitions: Annotated[
        int,
        typer.Option(
            "-p", "--partitions", min=1, max=INT32_MAX, help="How many it is to have, with those that are there."
        ),
    ],
    replica_assignment: ReplicaAssignment = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say whether it could be done; change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic. They cannot be removed, and a key may go to another partition than before."""
    by_hand = parse_assignment(replica_assignment)
    with patient_admin(bootstrap) as admin:
        topic = admin.create_partitions(name, partitions, by_hand, validate_only=dry_run)
    if as_json:
        print_json({**_topic_json(topic), "dry_run": dry_run})
    elif dry_run:
        say(f"{name} could have {partitions} partitions; it has {topic.partition_count}, and nothing was changed")
    else:
        say(f"altered {name}: {topic.partition_count} partitions")


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


@app.command("list")
def list_topics(
    names: Annotated[bool, typer.Option("--names", help="Names only, one a line, as in a pipe.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List all topics: on a terminal with their partitions and replicas; in a pipe and with --json their names."""
    with patient_admin(bootstrap) as admin:
        if sys.stdout.isatty() and not (names or as_json):
            rows = [_list_row(topic) for topic in admin.describe_topics()]
            print_table(["topic", "partitions", "replicas", "in trouble"], rows)
            return
        found = admin.list_topics()
    if as_json:
        print_json(found)
    else:
        for name in found:
            say(name)


def _list_row(topic: TopicDescription) -> tuple[object, ...]:
    """`in trouble`: how many partitions have no leader, or a replica that is not in sync."""
    troubled = sum(p.leader_id < 0 or p.error is not None or len(p.isr) < len(p.replicas) for p in topic.partitions)
    return topic.name, count(topic.partition_count), topic.replication_factor, count(troubled) if troubled else "-"


@app.command()
def describe(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The topic; without it, all.", autocompletion=complete_topic)
    ] = "",
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with a replica that is not in sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions that cannot be read and written now.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    log_dirs: Annotated[
        bool,
        typer.Option(
            "--log-dirs",
            help="Also the directory.id of each replica's log dir, in the order of the replicas; with --json always.",
        ),
    ] = False,
) -> None:
    """Show each partition's leader, replicas and in-sync replicas."""
    columns = (*PARTITION_COLUMNS, "log dirs") if log_dirs else PARTITION_COLUMNS
    wanted = PartitionChoice(under_replicated, unavailable)
    with patient_admin(bootstrap) as admin:
        topics = [admin.describe_topic(name)] if name else admin.describe_topics()
    topics = [wanted.part_of(topic) for topic in topics]
    if as_json:
        shown = [_topic_json(topic) for topic in topics if topic.partitions or not wanted.is_picky]
        print_json(_topic_json(topics[0]) if name else shown)
        return
    if name:
        configs = " ".join(f"{key}={value}" for key, value in sorted(topics[0].config.items()))
        print_fields({"topic": name, "id": topics[0].topic_id, "configs": configs or "(defaults)"})
        print_table(columns, [partition_row(p)[: len(columns)] for p in topics[0].partitions])
    else:
        rows = [(topic.name, *partition_row(p)[: len(columns)]) for topic in topics for p in topic.partitions]
        print_table(["topic", *columns], rows)
    age_ms = max((topic.metadata_age_ms for topic in topics), default=0)
    if age_ms >= METADATA_OLD_MS:
        note(f"this is {age_ms // 1000} s old: no controller answers the broker; see `penstock cluster health`")
    for topic in topics:
        for partition in topic.partitions:
            if partition.error is not None:
                note(f"{'partition ' if name else f'{topic.name}-'}{partition.partition}: {partition.error}")


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """Which partitions a user asks for: all, or those in one of two kinds of trouble."""

    under_replicated: bool = False
    unavailable: bool = False

    @property
    def is_picky(self) -> bool:
        return self.under_replicated or self.unavailable

    def part_of(self, topic: TopicDescription) -> TopicDescription:
        """The topic with the wanted partitions alone."""
        return replace(topic, partitions=tuple(p for p in topic.partitions if not self.is_picky or self._has(p)))

    def _has(self, partition: PartitionInfo) -> bool:
        is_short = len(partition.isr) < len(partition.replicas)
        is_down = partition.leader_id < 0 or partition.error is not None
        return (self.under_replicated and is_short) or (self.unavailable and is_down)


@app.command()
def delete(name: TopicName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Delete a topic and its data."""
    with patient_admin(bootstrap) as admin:
        admin.delete_topic(name)
    if as_json:
        print_json({"deleted": name})
    else:
        say(f"deleted {name}")


app.command("offsets")(offsets)
app.command("delete-records")(delete_records)
app.command("producers")(producers)


def partition_row(p: PartitionInfo) -> tuple[object, ...]:
    """The columns of a partition, the log dirs last."""
    leader = p.leader_id if p.leader_id >= 0 else "none"
    log_dirs = ",".join(log_dir or NOT_ASSIGNED for log_dir in p.log_dirs) or NOT_ASSIGNED
    return p.partition, leader, p.leader_epoch, _ids(p.replicas), _ids(p.isr), _ids(p.elr), log_dirs


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _topic_json(topic: TopicDescription) -> dict[str, Any]:
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
