"""`penstock topics`: list and describe. The changes are in topic_changes.py; what is about records is in records.py."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.edge.patterns import Pattern, matching
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic
from penstock.cli.output import count, note, print_fields, print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.cli.records import delete_records, offsets, producers
from penstock.cli.topic_changes import alter, create, delete, topic_json
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock.client.admin.admin_types import PartitionInfo, TopicDescription

app = typer.Typer(
    help="Create, alter, list, describe and delete topics; show their offsets; delete their records.",
    no_args_is_help=True,
)

PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "elr")
NOT_ASSIGNED = "?"
"""Stands for a log dir. The broker has not yet told the controller where the replica is."""
METADATA_OLD_MS = 3_000
"""A broker hears from the quorum several times a second; an election takes less than this."""


@app.command("list")
def list_topics(
    names: Annotated[bool, typer.Option("--names", help="Names only, one a line, as in a pipe.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    pattern: Pattern = "",
) -> None:
    """List topics: on a terminal with their partitions and replicas; in a pipe and with --json their names."""
    is_wanted = matching(pattern)
    with patient_admin(bootstrap) as admin:
        if sys.stdout.isatty() and not (names or as_json):
            rows = [_list_row(topic) for topic in admin.describe_topics() if is_wanted(topic.name)]
            print_table(["topic", "partitions", "replicas", "in trouble"], rows)
            return
        found = [name for name in admin.list_topics() if is_wanted(name)]
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
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="The topics; without one, all.", autocompletion=complete_topic),
    ] = None,
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
        named = [admin.describe_topic(name) for name in dict.fromkeys(names or ())]
        topics = named or admin.describe_topics()
    only = named[0].name if len(named) == 1 else ""
    topics = [wanted.part_of(topic) for topic in topics]
    if as_json:
        shown = [topic_json(topic) for topic in topics if topic.partitions or not wanted.is_picky]
        print_json(topic_json(topics[0]) if only else shown)
        return
    if only:
        configs = " ".join(f"{key}={value}" for key, value in sorted(topics[0].config.items()))
        print_fields({"topic": only, "id": topics[0].topic_id, "configs": configs or "(defaults)"})
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
                note(f"{'partition ' if only else f'{topic.name}-'}{partition.partition}: {partition.error}")


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """The partitions that a user asks for: all, or those in one of two kinds of trouble."""

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


app.command("create")(create)
app.command("alter")(alter)
app.command("delete")(delete)
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
