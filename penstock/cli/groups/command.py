"""`penstock groups list|describe|reset-offsets|delete|delete-offsets`: consumer groups as an administrator sees them.

Not here: `reset-offsets` (reset.py), the deletions (deletion.py), and members, which are consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.patterns import Pattern, matching
from penstock.cli.groups.deletion import delete, delete_offsets
from penstock.cli.groups.group_options import complete_group
from penstock.cli.groups.reset import reset_offsets
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import count, note, print_fields, print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.messages.groups.listing import GroupType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.admin.groups.group_types import GroupDescription, MemberDescription, PartitionLag
    from penstock.errors import ApiError
    from penstock.types import TopicPartition

app = typer.Typer(
    help="List and describe consumer groups, show their lag, move their offsets, delete them.", no_args_is_help=True
)
app.command("reset-offsets")(reset_offsets)
app.command("delete")(delete)
app.command("delete-offsets")(delete_offsets)

NOTHING = "-"
LAG_COLUMNS = ("topic", "partition", "committed", "log_end", "lag", "member_id", "client_id", "host")
MEMBER_COLUMNS = ("member_id", "instance_id", "client_id", "host", "epoch", "protocol", "silent_s", "partitions")


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only groups in this state: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning,"
            " Reconciling or Dead. May be repeated.",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only groups of this protocol: classic or consumer."),
    ] = None,
    pattern: Pattern = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the groups of all coordinators."""
    from penstock.client.admin.groups.group_calls import GROUP_STATES
    from penstock.client.cluster.arguments import checked_words

    is_wanted = matching(pattern)
    states = checked_words("--state", state or (), GROUP_STATES)
    kinds = checked_words("--type", kind or (), tuple(GroupType))
    with patient_admin(bootstrap) as admin:
        found = [one for one in admin.list_groups(states=states, types=kinds) if is_wanted(one.group_id)]
    if as_json:
        print_json(
            [
                {
                    "group_id": group.group_id,
                    "state": group.state,
                    "type": group.group_type,
                    "protocol_type": group.protocol_type,
                    "coordinator_id": group.coordinator_id,
                }
                for group in found
            ]
        )
    else:
        rows = [(g.group_id, g.state, g.group_type, g.protocol_type or NOTHING, g.coordinator_id) for g in found]
        print_table(["group", "state", "type", "protocol_type", "coordinator"], rows)


@app.command()
def describe(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="The groups.", autocompletion=complete_group)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every group.")] = False,
    members: Annotated[
        bool, typer.Option("--members", help="A row for each member with its partitions, not for each partition.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show a group's state, its partitions with their lag, and the members that have them.

    `committed` is the next offset that the group will read, `log_end` the end of what can be read; '-' where nothing is
    committed, no member has the partition, or its leader does not answer. With --json everything is shown.

    `silent_s` are the seconds since the coordinator has last heard of a member: one that died stays until its session
    is over.
    """
    named = list(dict.fromkeys(groups or ()))
    if everything == bool(named):
        raise ConfigError("give either groups or --all")
    with patient_admin(bootstrap) as admin:
        if everything:
            named = [group.group_id for group in admin.list_groups()]
        described = admin.describe_groups(named)
        there = [group_id for group_id in named if described[group_id].error is None]
        lags = admin.group_lags(there) if as_json or not members else {}
    failed = {group_id: group.error for group_id, group in described.items() if group.error is not None}
    if len(named) == 1 and failed:
        raise failed.popitem()[1]
    shown = [group for group in described.values() if group.error is None]
    if as_json:
        print_json(
            [
                _group_json(group, lags[group_id]) if group.error is None else _refused_json(group_id, group.error)
                for group_id, group in described.items()
            ]
        )
    for number, group in enumerate(() if as_json else shown):
        if number:
            say()
        _show_head(group)
        if members:
            print_table(MEMBER_COLUMNS, [_member_row(member) for member in group.members])
        else:
            print_table(LAG_COLUMNS, _lag_rows(group, lags[group.group_id]))
    for group_id, lag in lags.items():
        for tp, one in lag.items():
            if one.error is not None:
                note(f"{group_id}: {tp}: {one.error}")
    for group_id, error in () if as_json else failed.items():
        note(f"{group_id}: {error}")
    if failed:
        raise typer.Exit(1)


def _show_head(group: GroupDescription) -> None:
    print_fields(
        {
            "group": group.group_id,
            "state": group.state,
            "type": group.group_type,
            "assignor": group.assignor or NOTHING,
            "epoch": group.group_epoch,
            "coordinator": group.coordinator_id,
            "members": len(group.members),
        }
    )


def _lag_rows(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for tp, one in lags.items():
        owner = group.owner_of(tp)
        offsets = (one.committed.offset if one.committed else None, one.log_end_offset, one.lag)
        numbers = [NOTHING if number is None else count(number) for number in offsets]
        member = (owner.member_id, owner.client_id, owner.client_host) if owner else (NOTHING,) * 3
        rows.append((tp.topic, tp.partition, *numbers, *member))
    return rows


def _member_row(member: MemberDescription) -> tuple[object, ...]:
    partitions = ",".join(map(str, member.assignment)) or NOTHING
    who = (member.member_id, member.group_instance_id or NOTHING, member.client_id, member.client_host)
    silent = NOTHING if member.silent_ms is None else f"{member.silent_ms / 1000:.1f}"
    return *who, member.member_epoch, member.member_type, silent, partitions


def _refused_json(group_id: str, error: ApiError) -> dict[str, Any]:
    return {"group_id": group_id, "error": {"name": error.kafka_name, "message": str(error)}}


def _group_json(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "error": None,
        "state": group.state,
        "type": group.group_type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator_id": group.coordinator_id,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "rack_id": member.rack_id,
                "member_epoch": member.member_epoch,
                "protocol": member.member_type,
                "silent_ms": member.silent_ms,
                "subscribed_topics": list(member.subscribed_topic_names),
                "subscribed_pattern": member.subscribed_topic_regex,
                "assignment": _partitions_json(member.assignment),
                "target_assignment": _partitions_json(member.target_assignment),
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": None if one.committed is None else one.committed.offset,
                "leader_epoch": None if one.committed is None else one.committed.leader_epoch,
                "metadata": None if one.committed is None else one.committed.metadata,
                "commit_timestamp_ms": None if one.committed is None else one.committed.commit_timestamp_ms,
                "log_end": one.log_end_offset,
                "lag": one.lag,
                "member_id": one.member_id,
                "error": None if one.error is None else str(one.error),
            }
            for tp, one in lags.items()
        ],
    }


def _partitions_json(partitions: tuple[TopicPartition, ...]) -> list[dict[str, object]]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
