"""`penstock cluster balance`: plans the fewest moves that even the brokers, shows them, and performs them.

Exit code 1 if a partition was refused. Run again, it plans from what is there then. Not here: the plan
(penstock/balance/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.balance.cluster import Goal
from penstock.balance.planner import make_plan
from penstock.cli.moves.cluster_reading import check_sizes, read_cluster
from penstock.cli.moves.performing import perform
from penstock.cli.moves.plan_output import plan_json, show_plan
from penstock.cli.moves.throttling import Throttle, throttled
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.balance.plan import Plan
    from penstock.types import TopicPartition

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and its cost, and change nothing.")]


def balance(
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="WHAT,…",
            help="What is evened: replicas and racks; leaders, which copies nothing; bytes, within 10 % of the mean.",
        ),
    ] = "replicas,leaders",
    throttle: Throttle = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Even replicas, leaders and bytes over the brokers in service, with the fewest moves; clients go on.

    Some partitions move at a time. After Ctrl-C those go on by themselves; the same command, run again, does the rest.
    """
    from penstock import Admin

    goals = parse_goals(by)
    with patient_admin(bootstrap) as admin:
        state = read_cluster(admin)
    if Goal.BYTES in goals:
        check_sizes(state)
    plan = make_plan(state, goals)
    if not as_json:
        show_plan(plan)
    failed: dict[TopicPartition, str] = {}
    if not dry_run and not plan.is_empty:
        with Admin(bootstrap) as admin, throttled(admin, throttle):
            failed = perform(admin, plan).failed
    finish(plan, failed, as_json, dry_run)


def parse_goals(text: str) -> frozenset[Goal]:
    """ConfigError for a word that is none of them."""
    known = {goal.value: goal for goal in Goal}
    for word in text.split(","):
        if word not in known:
            raise ConfigError(f"--by {text}: {word!r} must be one of {', '.join(sorted(known))}")
    return frozenset(known[word] for word in text.split(","))


def finish(plan: Plan, failed: Mapping[TopicPartition, str], as_json: bool, dry_run: bool) -> None:
    """Says what became of the plan; exit code 1 where something was refused."""
    if as_json:
        errors = [{"topic": tp.topic, "partition": tp.partition, "error": why} for tp, why in sorted(failed.items())]
        print_json({**plan_json(plan), "performed": not dry_run, "failed": errors})
    else:
        for _, why in sorted(failed.items()):
            note(why)
    if failed:
        raise typer.Exit(1)
