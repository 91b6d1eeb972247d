"""`penstock quorum describe|add-voter|remove-voter|unregister|make-dynamic`: the controllers that vote, or may.

Each change waits for what a moment may bring, such as a newcomer that catches up, as long as a call of an admin client
may take. Exit code 4 of `describe` says that no leader answers; the others are those of every command (run.py). Not
here: how a voter is written (edge/voters.py), and which change is possible when (the quorum's leader).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.cluster import EXIT_CRITICAL
from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.edge.voters import (
    WITH_ADDRESS,
    WITHOUT_ADDRESS,
    NamedVoter,
    parse_voter,
    shown_voter,
    voter_of_config,
)
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_fields, print_json, print_rows, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import (
    ConfigError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    InvalidRequestError,
    PolicyViolationError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.written.numbers import INT32_MAX

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo

DYNAMIC: Final = "dynamic: `penstock quorum add-voter` and `remove-voter` change them"
STATIC: Final = "static, those of controller.quorum.voters; `penstock quorum make-dynamic` lets them be changed"
COLUMNS: Final = ("node", "kind", "log end offset", "lag", "last fetch ms ago", "caught up ms ago", "voter")

app = typer.Typer(help="The quorum of controllers: show it, and change its voters.", no_args_is_help=True)


@app.callback()
def _quorum() -> None:
    """The quorum of controllers: show it, and change its voters."""


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the quorum's leader, and of each voter and observer how far it is, its address and its directory id.

    The last column is a voter as `add-voter` and `remove-voter` take it. Exits with 4 if no leader answers: what is
    shown is then what one node knows by itself.
    """
    with patient_admin(bootstrap) as admin:
        info = admin.describe_quorum()
    if as_json:
        print_json(_document(info))
    else:
        print_fields(
            {
                "leader": info.leader_id if info.leader_id >= 0 else "none",
                "epoch": info.leader_epoch,
                "high watermark": info.high_watermark,
                "voters": DYNAMIC if info.is_dynamic else STATIC,
            }
        )
        replicas = [("voter", r) for r in info.voters] + [("observer", r) for r in info.observers]
        print_table(COLUMNS, [_row(info, kind, replica) for kind, replica in replicas])
    if not info.has_leader:
        note("no leader answers: this is what one node knows by itself; see `penstock cluster health`")
        raise typer.Exit(EXIT_CRITICAL)


@app.command("add-voter")
def add_voter(
    voter: Annotated[
        str,
        typer.Argument(
            metavar=f"[{WITH_ADDRESS}]",
            help="The controller that is to vote, at the address of its listener CONTROLLER.",
            show_default=False,
        ),
    ] = "",
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The controller is the node of this configuration, on this machine: id, address and directory id are"
            " read from the file and from its metadata log dir.",
        ),
    ] = "",
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Make a voter of a controller that runs as an observer: `quorum describe` shows it.

    Waits until it has the whole metadata log. An id votes once: to put a controller on a new disk, remove the voter
    with the old directory id first.
    """
    if bool(voter) == bool(config):
        raise ConfigError(f"name the controller as {WITH_ADDRESS}, or by --config FILE")
    named = voter_of_config(config) if config else parse_voter(voter, needs_address=True)
    if dry_run:
        with patient_admin(bootstrap) as admin:
            info = _described(admin)
        if any(one.node_id == named.voter_id for one in info.voters):
            raise DuplicateVoterError(f"node {named.voter_id} is a voter already; remove it first")
        _require_dynamic(info)
        note(_status(named, info))
        _changed(named, "would be added", as_json, done=False)
        return
    with patient_admin(bootstrap) as admin:
        admin.add_voter(named.voter_id, named.directory_id, named.address)
    _changed(named, "added", as_json)


@app.command("remove-voter")
def remove_voter(
    voter: Annotated[
        str,
        typer.Argument(
            metavar=WITHOUT_ADDRESS, help="The voter, as `quorum describe` shows it; its address may be left out."
        ),
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Take its vote from a controller. It goes on as an observer if it runs; stop it then.

    A voter that is gone for good is removed the same way, while a majority of the others lives. At a terminal it asks.
    """
    named = parse_voter(voter, needs_address=False)
    if dry_run or (sys.stdin.isatty() and not yes):
        with patient_admin(bootstrap) as admin:
            left = _left_without(named, _described(admin, only_if_may_change=dry_run))
        if dry_run:
            _changed(named, "would be removed", as_json, done=False)
            return
        agree(
            [f"voters that are left: {', '.join(map(str, left)) or 'none'}"],
            f"Remove voter {named.voter_id}?",
            yes=yes,
        )
    with patient_admin(bootstrap) as admin:
        admin.remove_voter(named.voter_id, named.directory_id)
    _changed(named, "removed", as_json)


@app.command()
def unregister(
    controller_id: Annotated[
        int, typer.Argument(metavar="ID", min=0, max=INT32_MAX, help="The node id of the controller.")
    ],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Forget a controller that is gone for good and votes no more: `quorum describe` shows it no longer.

    It is refused while the controller is a voter (`quorum remove-voter` first), and while it runs. A broker of the same
    id is another matter (`brokers unregister`).
    """
    if dry_run:
        with patient_admin(bootstrap) as admin:
            info = _described(admin)
        if any(one.node_id == controller_id for one in info.voters):
            raise PolicyViolationError(
                f"controller {controller_id} is a voter; take its vote first (`penstock quorum remove-voter`)"
            )
        if info.has_leader and all(one.node_id != controller_id for one in info.observers):
            raise ControllerIdNotRegisteredError(f"the quorum's leader knows no controller {controller_id}")
    else:
        with patient_admin(bootstrap) as admin:
            admin.unregister_controller(controller_id)
    outcome = "would be forgotten" if dry_run else "forgotten"
    if as_json:
        document = {"controller_id": controller_id, "outcome": outcome}
        print_json({**document, "dry_run": True} if dry_run else document)
    else:
        say(f"controller {controller_id} {outcome}")


@app.command("make-dynamic")
def make_dynamic(
    dry_run: DryRun = False, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False
) -> None:
    """Let the voters be changed from now on: the metadata log names the disk of each, in place of the configuration.

    The voters stay those that they are; all must run, and no node, broker or not, with an older release. From then
    on a voter on an empty disk is another voter. It cannot be undone. At a terminal it asks.
    """
    if dry_run:
        with patient_admin(bootstrap) as admin:
            info = _described(admin)
        voters = [(one.node_id, one.directory_id or "not said yet", info.is_dynamic) for one in info.voters]
        print_rows(("node", "directory id", "dynamic"), voters, as_json)
        return
    agree(
        ["the voters are disks from now on, and controller.quorum.voters counts no more"],
        "Make the quorum dynamic?",
        yes=yes,
    )
    with patient_admin(bootstrap) as admin:
        admin.make_quorum_dynamic()
    if as_json:
        print_json({"dynamic": True})
    else:
        say("the quorum is dynamic")


def _changed(voter: NamedVoter, what: str, as_json: bool, *, done: bool = True) -> None:
    if as_json:
        document = {"voter_id": voter.voter_id, "directory_id": voter.directory_id, "outcome": what}
        print_json(document if done else {**document, "dry_run": True})
    else:
        say(f"voter {voter} {what}")


def _described(admin: Admin, *, only_if_may_change: bool = True) -> QuorumInfo:
    """The quorum; AuthorizationFailedError for a caller that may not change it, as far as a leader can say that."""
    info = admin.describe_quorum()
    if only_if_may_change and info.has_leader:
        admin.check_may_alter_cluster()
    return info


def _require_dynamic(info: QuorumInfo) -> None:
    """UnsupportedVersionError where the leader says that no voter can be changed."""
    if info.has_leader and not info.is_dynamic:
        raise UnsupportedVersionError(f"the voters are {STATIC}")


def _left_without(named: NamedVoter, info: QuorumInfo) -> list[int]:
    """The voters that stay. The leader's own errors where it would refuse the removal."""
    if info.has_leader and (named.voter_id, named.directory_id) not in [
        (one.node_id, one.directory_id) for one in info.voters
    ]:
        raise VoterNotFoundError(f"no voter has the id {named.voter_id} and the directory id {named.directory_id}")
    _require_dynamic(info)
    left = [one.node_id for one in info.voters if one.node_id != named.voter_id]
    if info.has_leader and not left:
        raise InvalidRequestError(f"voter {named.voter_id} is the last one; add another first")
    return left


def _status(named: NamedVoter, info: QuorumInfo) -> str:
    """The standing of a controller that is to be added, as the quorum knows it."""
    seen = [one for one in info.observers if (one.node_id, one.directory_id) == (named.voter_id, named.directory_id)]
    if not seen:
        return f"no observer has the id {named.voter_id} and that directory id: start it first"
    return f"it is an observer, and lacks {info.lag_of(seen[0])} records"


def _row(info: QuorumInfo, kind: str, replica: QuorumReplicaInfo) -> tuple[object, ...]:
    lag, caught_up = info.lag_of(replica), replica.last_caught_up_ms_ago
    return (
        replica.node_id,
        kind,
        replica.log_end_offset,
        "-" if lag is None else lag,
        replica.last_fetch_ms_ago,
        caught_up or "-",
        shown_voter(replica),
    )


def _document(info: QuorumInfo) -> dict[str, Any]:
    return {
        "leader_id": info.leader_id,
        "leader_epoch": info.leader_epoch,
        "high_watermark": info.high_watermark,
        "is_dynamic": info.is_dynamic,
        "only_own_view": info.only_own_view,
        "voters": [_replica(info, one) for one in info.voters],
        "observers": [_replica(info, one) for one in info.observers],
    }


def _replica(info: QuorumInfo, replica: QuorumReplicaInfo) -> dict[str, Any]:
    return {
        "node_id": replica.node_id,
        "directory_id": replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "lag": info.lag_of(replica),
        "last_fetch_ms_ago": replica.last_fetch_ms_ago,
        "last_caught_up_ms_ago": replica.last_caught_up_ms_ago,
        "endpoints": [
            {"name": at.name, "host": at.endpoint.host, "port": at.endpoint.port} for at in replica.endpoints
        ],
    }
