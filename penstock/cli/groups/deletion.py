"""`penstock groups delete|delete-offsets`: groups without members, and offsets that they have committed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.edge.places import parse_places
from penstock.cli.groups.group_options import GroupId, GroupIds, GroupTopics
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_rows, print_table, raise_common_refusal, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.errors import ApiError


def delete(
    groups: GroupIds,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete groups and their committed offsets. A group that has members is refused.

    At a terminal it shows what goes, and asks.
    """
    if dry_run or (sys.stdin.isatty() and not yes):
        with patient_admin(bootstrap) as admin:
            plan = _plan_of_groups(admin, groups)
        if dry_run:
            print_rows(("group_id", "state", "members", "offsets"), plan, as_json)
            return
        lines = [f"{name}: {state}, {members} members, {offsets} offsets" for name, state, members, offsets in plan]
        agree(lines, f"Delete {', '.join(groups)} and what they have committed?", yes=yes)
    with patient_admin(bootstrap) as admin:
        results = admin.delete_groups(groups)
    failed = {group_id: error for group_id, error in results.items() if error is not None}
    if len(results) == 1 and failed:
        raise failed.popitem()[1]
    if as_json:
        print_json(
            [
                {"group_id": group_id, "deleted": error is None, "error": _text(error)}
                for group_id, error in results.items()
            ]
        )
    else:
        for group_id in results:
            if group_id not in failed:
                say(f"deleted {group_id}")
        for group_id, error in failed.items():
            note(f"{group_id}: {error}")
    if failed:
        raise typer.Exit(1)


def _plan_of_groups(admin: Admin, groups: Sequence[str]) -> list[tuple[str, str, int, int]]:
    """Each group as it is now: id, state, members and offsets. Raises the error of a group that does not exist."""
    plan = []
    for group_id, group in admin.describe_groups(list(dict.fromkeys(groups))).items():
        if group.error is not None:
            raise group.error
        plan.append((group_id, group.state, len(group.members), len(admin.group_offsets(group_id))))
    return plan


def delete_offsets(
    group: GroupId,
    topic: GroupTopics = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete committed offsets of a group, of topics that no member of it reads.

    A topic without partitions means all that the group has committed of it, be the topic deleted or not.
    """
    topics = parse_places(topic or (), "--topic")
    if not topics:
        raise ConfigError("give the topics, like --topic orders, or --topic orders:0,2")
    with patient_admin(bootstrap) as admin:
        committed = admin.group_offsets(group)
        wanted = [
            tp for tp in committed if tp.topic in topics and tp.partition in (topics[tp.topic] or (tp.partition,))
        ]
    if not wanted:
        raise ConfigError(
            f"group {group!r} has committed nothing of {', '.join(topics)}; see `penstock groups describe`"
        )
    plan = [(*tp, committed[tp].offset) for tp in wanted]
    if dry_run:
        print_rows(("topic", "partition", "offset"), plan, as_json)
        return
    agree([f"{topic}:{number}: {offset}" for topic, number, offset in plan], f"Delete these of {group}?", yes=yes)
    with patient_admin(bootstrap) as admin:
        results = admin.delete_group_offsets(group, wanted)
    raise_common_refusal(list(results.values()))
    if as_json:
        print_json(
            [
                {"topic": tp.topic, "partition": tp.partition, "deleted": error is None, "error": _text(error)}
                for tp, error in results.items()
            ]
        )
    else:
        done = [tp for tp, error in results.items() if error is None]
        print_table(["topic", "partition", "deleted"], [(*tp, committed[tp].offset) for tp in done])
        for tp, error in results.items():
            if error is not None:
                note(f"{tp}: {error}")
    if any(results.values()):
        raise typer.Exit(1)


def _text(error: ApiError | None) -> str | None:
    return None if error is None else str(error)
