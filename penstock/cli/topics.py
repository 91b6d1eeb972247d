"""`penstock topics create|list|describe|delete`; `offsets` and `delete-records` are in records.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, parse_pairs
from penstock.cli.output import note, print_fields, print_json, print_table
from penstock.cli.records import delete_records, offsets

if TYPE_CHECKING:
    from penstock.client.admin.admin_types import TopicDescription

app = typer.Typer(
    help="Create, list, describe and delete topics; show their offsets; delete their records.",
    no_args_is_help=True,
)

CLUSTER_DEFAULT = -1
TopicName = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


@app.command()
def create(
    name: TopicName,
    partitions: Annotated[int, typer.Option("-p", "--partitions", help="-1: the cluster's default.")] = CLUSTER_DEFAULT,
    replicas: Annotated[int, typer.Option("-r", "--replicas", help="-1: the cluster's default.")] = CLUSTER_DEFAULT,
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    pairs = parse_pairs(config or [])
    from penstock import Admin

    with Admin(bootstrap) as admin:
        topic = admin.create_topic(name, partitions=partitions, replication_factor=replicas, config=pairs)
    if as_json:
        print_json(_topic_json(topic))
    else:
        counts = f"{topic.partition_count} partitions, {topic.replication_factor} replicas"
        print(f"created {name}: {counts}, id {topic.topic_id}")


@app.command("list")
def list_topics(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the names of all topics, one a line."""
    from penstock import Admin

    with Admin(bootstrap) as admin:
        names = admin.list_topics()
    if as_json:
        print_json(names)
    else:
        for name in names:
            print(name)


@app.command()
def describe(name: TopicName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show each partition's leader, replicas and in-sync replicas."""
    from penstock import Admin

    with Admin(bootstrap) as admin:
        topic = admin.describe_topic(name)
    if as_json:
        print_json(_topic_json(topic))
        return
    configs = " ".join(f"{key}={value}" for key, value in sorted(topic.config.items()))
    print_fields({"topic": topic.name, "id": topic.topic_id, "configs": configs or "(defaults)"})
    rows = [
        (p.partition, p.leader_id if p.leader_id >= 0 else "none", p.leader_epoch, _ids(p.replicas), _ids(p.isr))
        for p in topic.partitions
    ]
    print_table(["partition", "leader", "epoch", "replicas", "isr"], rows)
    for partition in topic.partitions:
        if partition.error is not None:
            note(f"partition {partition.partition}: {partition.error}")


@app.command()
def delete(name: TopicName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Delete a topic and its data."""
    from penstock import Admin

    with Admin(bootstrap) as admin:
        admin.delete_topic(name)
    if as_json:
        print_json({"deleted": name})
    else:
        print(f"deleted {name}")


app.command("offsets")(offsets)
app.command("delete-records")(delete_records)


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _topic_json(topic: TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "config": dict(topic.config),
        "partitions": [
            {
                "partition": p.partition,
                "leader_id": p.leader_id,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "error": None if p.error is None else str(p.error),
            }
            for p in topic.partitions
        ],
    }
