"""`penstock cluster balance`: plans the fewest moves that even the brokers, shows them, and performs them; then those
that even the log dirs of each broker, from what is there by then.

Exit code 1 if a partition was refused, or a replica is not in the log dir that was planned. Run again, it plans from
what is there then. Not here: the plan (penstock/balance/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.balance.cluster import Goal
from penstock.balance.dirs.dir_planner import make_dir_plan
from penstock.balance.planner import make_plan
from penstock.cli.moves.cluster_reading import check_sizes, read_cluster
from penstock.cli.moves.dirs.dir_output import dirs_json, show_dirs
from penstock.cli.moves.dirs.dir_performing import perform_dirs
from penstock.cli.moves.dirs.dir_queue import DIR_MOVES_MAX
from penstock.cli.moves.dirs.dir_reading import read_dirs
from penstock.cli.moves.performing import MOVING_MAX, perform
from penstock.cli.moves.plan_output import plan_json, show_plan
from penstock.cli.moves.throttling import LOG_DIR_KEYS, Throttle, throttled
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock.balance.dirs.broker_dirs import DirPlan
    from penstock.balance.plan import Plan
    from penstock.cli.moves.dirs.dir_reading import ReadDirs
    from penstock.types import TopicPartition

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and its cost, and change nothing.")]


@dataclass(frozen=True, slots=True)
class MovesAtATime:
    """The most moves that are under way at once."""

    partitions: int = MOVING_MAX
    replicas_of_broker: int = DIR_MOVES_MAX
    """Replicas that move between the log dirs of one broker."""


@dataclass(frozen=True, slots=True)
class BalancedDirs:
    """The result of balancing log dirs."""

    plan: DirPlan
    read: ReadDirs  # before
    failed: Mapping[tuple[int, TopicPartition], str]  # by broker: why


def balance(
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="WHAT,…",
            help="What is evened: replicas and racks; leaders, which copies nothing; bytes, within 10 % of the mean;"
            " dirs, the bytes of the log dirs of each broker, likewise.",
        ),
    ] = "replicas,leaders",
    throttle: Throttle = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Even replicas, leaders and bytes over the brokers in service, and over log dirs, with the fewest moves.

    Clients go on. Some partitions move at a time. After Ctrl-C those go on by themselves; the same command, run again,
    does the rest. The throttle holds for copies between brokers, and for those between the log dirs of each.
    """
    balance_cluster(by, throttle, dry_run=dry_run, bootstrap=bootstrap, as_json=as_json)


def balance_cluster(
    by: str,
    throttle: int | None = None,
    *,
    dry_run: bool = False,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    as_json: bool = False,
    limits: MovesAtATime = MovesAtATime(),
) -> None:
    """The command, with its limits."""
    from penstock import Admin

    goals = parse_goals(by)
    with patient_admin(bootstrap) as admin:
        state = read_cluster(admin)
    if Goal.BYTES in goals:
        check_sizes(state)
    plan = make_plan(state, goals)
    if not as_json and goals != {Goal.DIRS}:
        show_plan(plan)
    failed: dict[TopicPartition, str] = {}
    if not dry_run and not plan.is_empty:
        with Admin(bootstrap) as admin, throttled(admin, throttle):
            failed = perform(admin, plan, limits.partitions).failed
    dirs = (
        _balance_dirs(bootstrap, throttle, dry_run, as_json, limits.replicas_of_broker) if Goal.DIRS in goals else None
    )
    if dirs is not None and dry_run and plan.moves:
        note("the log dirs are planned from what is there now; after the moves between brokers they are planned anew")
    finish(plan, failed, as_json, dry_run, dirs)


def _balance_dirs(bootstrap: str, throttle: int | None, dry_run: bool, as_json: bool, moving_max: int) -> BalancedDirs:
    """Balances the log dirs, after reading them anew: the moves between brokers are done."""
    from penstock import Admin

    with patient_admin(bootstrap) as admin:
        read = read_dirs(admin, read_cluster(admin))
    plan = make_dir_plan(read.brokers)
    if not as_json:
        show_dirs(plan, read)
    if dry_run or plan.is_empty:
        return BalancedDirs(plan, read, {})
    with Admin(bootstrap) as admin, throttled(admin, throttle, LOG_DIR_KEYS) as hold:
        performed = perform_dirs(admin, plan, moving_max)
        hold.stays = performed.under_way > 0
    return BalancedDirs(plan, read, performed.failed)


def parse_goals(text: str) -> frozenset[Goal]:
    """The goals that `--by` names; ConfigError for a word that is no goal."""
    known = {goal.value: goal for goal in Goal}
    for word in text.split(","):
        if word not in known:
            raise ConfigError(f"--by {text}: {word!r} must be one of {', '.join(sorted(known))}")
    return frozenset(known[word] for word in text.split(","))


def finish(
    plan: Plan, failed: Mapping[TopicPartition, str], as_json: bool, dry_run: bool, dirs: BalancedDirs | None = None
) -> None:
    """Says what became of the plans; exit code 1 where something was refused, or a broker did not say."""
    if as_json:
        errors = [{"topic": tp.topic, "partition": tp.partition, "error": why} for tp, why in sorted(failed.items())]
        log_dirs = {} if dirs is None else {"log_dirs": dirs_json(dirs.plan, dirs.read, dirs.failed)}
        print_json({**plan_json(plan), **log_dirs, "performed": not dry_run, "failed": errors})
    else:
        for _, why in sorted(failed.items()):
            note(why)
        for _, why in sorted(dirs.failed.items()) if dirs is not None else ():
            note(why)
        for broker_id, why in sorted(dirs.read.silent.items()) if dirs is not None else ():
            note(f"broker {broker_id} does not say what is in its log dirs; they are left alone: {why}")
    if failed or (dirs is not None and (dirs.failed or dirs.read.silent)):
        raise typer.Exit(1)
