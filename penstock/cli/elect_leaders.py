"""`penstock elect-leaders`: gives partitions their preferred leader back, or a leader at the price of records.

Exit code 1 if a partition that should have had an election got none. Not here: which replica may be elected (the
controller).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.edge.asking import DryRun
from penstock.cli.edge.places import OnlyPartitions, PlaceNames, Places, partitions_of, places_or_all
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_rows, print_table
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError, ElectionNotNeededError
from penstock.plain_text import one_line

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin

_COLUMNS = ("topic", "partition", "leader", "elected")
_QUESTION = (
    "Acked records that only the replicas out of service have are lost for good. Elect leaders of {what} nevertheless?"
)


def elect_leaders(
    names: PlaceNames = None,
    partition: OnlyPartitions = None,
    everything: Annotated[bool, typer.Option("--all", help="All partitions of all topics.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Where there is no leader, take any replica in service. RECORDS MAY BE LOST: those that it lacks.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask before an unclean election.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Elect leaders: the first replica of each partition, where it is in sync; with --unclean, any that is there."""
    places = places_or_all(names, partition, everything)
    what = "all topics" if everything else ", ".join(places)
    if dry_run:
        with patient_admin(bootstrap) as admin:
            print_rows(_COLUMNS, _would(admin, places, unclean), as_json)
        return
    if unclean and not yes and not sys.stdin.isatty():
        raise ConfigError("--unclean may lose records; stdin is no terminal to ask on: add --yes to agree")
    if unclean and not yes:
        typer.confirm(one_line(_QUESTION.format(what=what)), abort=True, err=True)
    with patient_admin(bootstrap) as admin:
        results = admin.elect_leaders(None if everything else partitions_of(admin, places), unclean=unclean)
    failed = {tp: r.error for tp, r in results.items() if r.error and not isinstance(r.error, ElectionNotNeededError)}
    elected = sorted((tp, r.leader_id) for tp, r in results.items() if r.error is None)
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "leader_id": result.leader_id,
                    "elected": result.error is None,
                    "error": None if result.error is None else str(result.error),
                }
                for tp, result in sorted(results.items())
            ]
        )
    else:
        print_table(["topic", "partition", "leader"], [(tp.topic, tp.partition, leader) for tp, leader in elected])
        for _, error in sorted(failed.items()):
            note(str(error))
    if failed:
        raise typer.Exit(1)


def _would(admin: Admin, places: Places, unclean: bool) -> list[tuple[str, int, int, int]]:
    """The partitions that an election would change, by what is known now: their leader, and the first replica, which
    would lead. An unclean election takes the first that is in service."""
    topics = [admin.describe_topic(name) for name in places] or admin.describe_topics()
    found = []
    for topic in topics:
        chosen = places.get(topic.name, ())
        for one in topic.partitions:
            first = one.replicas[0]
            is_needed = one.leader_id < 0 if unclean else one.leader_id != first and first in one.isr
            if is_needed and (not chosen or one.partition in chosen):
                found.append((topic.name, one.partition, one.leader_id, first))
    return found
