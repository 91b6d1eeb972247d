"""`penstock brokers list|wait|cordon|uncordon|drain|unregister`: shows the registered brokers, waits until some serve,
keeps new replicas off some, takes everything off one, and forgets one.

Exit code 1 if a partition was refused, the broker still has replicas in the end, or one does not serve in time. Not
here: the plan (penstock/balance/), how a broker is drained (penstock/cli/moves/draining.py), and what is allowed (the
controller).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.balance.planner import make_plan
from penstock.cli.edge.asking import DryRun as BrokerDryRun
from penstock.cli.edge.asking import Yes, agree
from penstock.cli.edge.several import only_or_all, telling_what_was_done
from penstock.cli.moves.balance import DryRun, finish
from penstock.cli.moves.cluster_reading import read_cluster
from penstock.cli.moves.cordoning import EVERY_DIR, Cordons, cordon_broker, cordoned_while, uncordon_broker
from penstock.cli.moves.draining import drain_broker
from penstock.cli.moves.plan_output import show_plan
from penstock.cli.moves.throttling import Throttle, throttled
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_rows, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import BrokerIdNotRegisteredError, ConfigError, PenstockError
from penstock.written.numbers import INT32_MAX

if TYPE_CHECKING:
    from penstock.balance.cluster import ClusterState
    from penstock.client.admin.admin_types import BrokerDescription, BrokerInfo
    from penstock.types import TopicPartition

Brokers = Annotated[list[int], typer.Argument(metavar="ID...", min=0, max=INT32_MAX, help="The brokers' ids.")]
LogDirs = Annotated[
    list[str] | None,
    typer.Option("--log-dir", metavar="DIR", help="Only this log dir of the broker; may be repeated."),
]
POLL_SECONDS = 0.5
SAY_SECONDS = 10.0
COLUMNS = ("broker", "address", "rack", "state", "replicas", "leaders", "cordoned")

app = typer.Typer(
    help="Brokers: show them, take everything off one, and forget one that is gone for good.", no_args_is_help=True
)


class NotInServiceError(PenstockError):
    """A broker was waited for and does not serve."""


@app.callback()
def _brokers() -> None:
    """Brokers: show them, take everything off one, and forget one that is gone for good."""


@app.command()
def drain(
    broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=INT32_MAX, help="The broker.")],
    throttle: Throttle = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move every replica and leadership off a broker, and wait until it has none; clients go on.

    The broker is cordoned first, so nothing new is placed there, and stays so: stop it, or let replicas come again with
    `brokers uncordon`. Ctrl-C takes the cordon back. Refused where too few brokers are left for the replicas of a
    partition. Moves to the broker that go on are cancelled.
    """
    from penstock import Admin

    with patient_admin(bootstrap) as admin:
        state = read_cluster(admin, [broker_id])
    _check_registered(state, broker_id)
    plan = make_plan(state, frozenset())
    if not as_json:
        show_plan(plan)
    failed: Mapping[TopicPartition, str] = {}
    if not dry_run:
        with Admin(bootstrap) as admin, throttled(admin, throttle), cordoned_while(admin, broker_id):
            failed = drain_broker(admin, broker_id, plan)
    finish(plan, failed, as_json, dry_run)


def _check_registered(state: ClusterState, broker_id: int) -> None:
    _check_known([broker.broker_id for broker in state.brokers], broker_id)


def _check_known(known: Collection[int], broker_id: int) -> None:
    if broker_id not in known:
        names = ", ".join(map(str, sorted(known)))
        raise BrokerIdNotRegisteredError(f"broker {broker_id} is not registered; these are: {names}")


@app.command()
def cordon(
    broker_ids: Brokers,
    log_dir: LogDirs = None,
    dry_run: BrokerDryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Place nothing new on brokers, or in log dirs of one; what is there stays, and is served.

    It holds until `uncordon`, also while the broker is away. New topics, partitions and moves go elsewhere.
    """
    _change_cordons(cordon_broker, broker_ids, log_dir or [], bootstrap, as_json=as_json, dry_run=dry_run)


@app.command()
def uncordon(
    broker_ids: Brokers,
    log_dir: LogDirs = None,
    dry_run: BrokerDryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Let new replicas be placed on brokers again, or in log dirs of one."""
    _change_cordons(uncordon_broker, broker_ids, log_dir or [], bootstrap, as_json=as_json, dry_run=dry_run)


def _change_cordons(
    change: Callable[[Cordons, list[str]], str],
    broker_ids: list[int],
    dirs: list[str],
    bootstrap: str,
    *,
    as_json: bool,
    dry_run: bool,
) -> None:
    if dirs and len(broker_ids) > 1:
        raise ConfigError("--log-dir is of one broker; give one ID with it")
    shown = []
    with patient_admin(bootstrap) as admin, telling_what_was_done() as done:
        for broker_id in dict.fromkeys(broker_ids):
            value = change(Cordons(admin, broker_id, dry_run=dry_run), dirs)
            what = {EVERY_DIR: "the whole broker", "": "nothing"}.get(value, value)
            text = f"broker {broker_id}: {what} {'would be' if dry_run else 'is'} cordoned"
            done += [] if dry_run else [text]
            shown.append({"broker": broker_id, "cordoned.log.dirs": value, "dry_run": dry_run})
            if not as_json:
                say(text)
    if as_json:
        print_json(only_or_all(shown))


@app.command("list")
def list_brokers(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the registered brokers, fenced ones too, and how many replicas and leaders each has."""
    with patient_admin(bootstrap) as admin:
        found = admin.describe_brokers()
    rows = [_row(described) for described in found]
    _print(rows, as_json)


@app.command("wait")
def wait_for_brokers(
    broker_ids: Brokers,
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=0, max=INT32_MAX, help="Fail if one is not in service by then.")
    ] = 600,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Wait until brokers are registered and in service; a script goes on with new ones then.

    Exit code 1 if one is not in time; the error says which, and whether it is registered.
    """
    began, said_at = time.monotonic(), time.monotonic()
    with patient_admin(bootstrap) as admin:
        while missing := _not_in_service({one.node_id: one for one in admin.describe_cluster().brokers}, broker_ids):
            now = time.monotonic()
            if now - began >= timeout:
                raise NotInServiceError(
                    f"{missing} after {timeout} s; the node's log says why, `penstock cluster health` what is wrong"
                )
            if now - said_at >= SAY_SECONDS:
                said_at = now
                note(f"waiting: {missing}")
            time.sleep(POLL_SECONDS)
    if as_json:
        print_json({"brokers": broker_ids, "in_service": True})
    else:
        say(f"in service: {', '.join(map(str, broker_ids))}")


def _not_in_service(found: Mapping[int, BrokerInfo], broker_ids: Sequence[int]) -> str:
    """The brokers that do not serve, with what they lack; "" where all do."""
    lacks = {one: "is fenced" if one in found else "is not registered" for one in broker_ids}
    return ", ".join(f"broker {one} {what}" for one, what in lacks.items() if one not in found or found[one].fenced)


@app.command()
def unregister(
    broker_ids: Brokers,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="It is no error that a broker is not registered.")
    ] = False,
    dry_run: BrokerDryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Forget brokers that are gone for good. They must be stopped, and have no replica any more.

    If a process with its id comes back later, it is a new broker. A node that is a voter of the quorum stays one. At a
    terminal it asks.
    """
    if dry_run or (sys.stdin.isatty() and not yes):
        with patient_admin(bootstrap) as admin:
            known = {one.broker.node_id: one for one in admin.describe_brokers()}
        broker_ids = [broker_id for broker_id in broker_ids if broker_id in known or not if_exists]
        for broker_id in broker_ids:
            _check_known(known, broker_id)
        rows = [_row(known[broker_id]) for broker_id in broker_ids]
        if dry_run:
            _print(rows, as_json)
            return
        plan = [f"broker {number}, {state}: {replicas} replicas" for number, _, _, state, replicas, *_ in rows]
        agree(plan, f"Forget {', '.join(map(str, broker_ids))}?", yes=yes)
    with patient_admin(bootstrap) as admin, telling_what_was_done() as done:
        for broker_id in dict.fromkeys(broker_ids):
            try:
                admin.unregister_broker(broker_id)
            except BrokerIdNotRegisteredError:
                if not if_exists:
                    raise
                note(f"broker {broker_id} is not registered; there is nothing to forget")
                continue
            done.append(f"unregistered {broker_id}")
            if not as_json:
                say(f"unregistered {broker_id}")
    if as_json:
        print_json(only_or_all([{"broker": broker_id, "unregistered": True} for broker_id in broker_ids]))


def _row(described: BrokerDescription) -> tuple[object, ...]:
    broker = described.broker
    state = "fenced" if broker.fenced else "in service"
    return (
        broker.node_id,
        f"{broker.host}:{broker.port}",
        broker.rack or "-",
        state,
        described.replicas,
        described.leaders,
        broker.cordoned,
    )


def _print(rows: Sequence[tuple[object, ...]], as_json: bool) -> None:
    """The rows as objects, or as a table in which a person reads yes or no."""
    words = {True: "yes", False: "no"}
    print_rows(COLUMNS, rows if as_json else [(*row, words[bool(is_cordoned)]) for *row, is_cordoned in rows], as_json)
