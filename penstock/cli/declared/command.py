"""`penstock apply FILE` makes a cluster what a file declares; `penstock export` writes such a file from a cluster.

Exit codes of `apply`, besides those of every command:

    0  the cluster is as the file says, now or before
    3  with --dry-run: there is something to do
    4  something in the file cannot be done; nothing was changed

1: a step was refused. The steps before it are done, and the same command goes on from there. Not here: what a file may
say (penstock/declared/reading.py), and the plan (penstock/declared/plan.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.declared.finding import find_state
from penstock.cli.declared.performing import AppliedSteps, passwords_of, perform, refused
from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.edge.connecting import VARIABLES
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_table, progress, say
from penstock.cli.patience.watch import patient_admin
from penstock.config_keys import did_you_mean
from penstock.declared.plan import ApplyPlan, PlanOptions, plan_apply
from penstock.declared.reading import FILE_BYTES_MAX, read_declared
from penstock.declared.state import DeclaredKind, DeclaredState
from penstock.declared.writing import write_declared
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.declared.plan import ApplyStep

EXIT_REFUSED = 1
EXIT_TO_DO = 3
EXIT_IMPOSSIBLE = 4
COLUMNS = ("act", "kind", "name", "what")
STDIN = "-"

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help=f"Only this: {', '.join(DeclaredKind)}; may be repeated."),
]


def apply(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What the cluster should have, as TOML; '-': stdin.")],
    prune: Annotated[
        list[str] | None,
        typer.Option(
            "--prune",
            metavar="KIND",
            help=f"Delete what the file does not name, of this kind: {', '.join(DeclaredKind)}; may be repeated."
            " TOPICS GO WITH THEIR RECORDS.",
        ),
    ] = None,
    set_passwords: Annotated[
        bool, typer.Option("--set-passwords", help="Set the passwords of users that are there, too.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Make the cluster what a file declares: topics, configurations, users, ACLs and quotas.

    It shows the plan, asks at a terminal, and does it in a safe order. What the file does not name stays, without
    --prune. Nothing is changed if the file has something that cannot be done. If a step is refused, run the command
    again: it goes on from there. Exits with 3 if --dry-run finds something to do, with 4 if something cannot be done.
    """
    name = "standard input" if file == STDIN else file
    wanted = read_declared(name, _content(file))
    if prune and wanted == DeclaredState():
        raise ConfigError(
            f"{name}: it declares nothing, so --prune would delete everything of {', '.join(prune)}. A file that was"
            " cut short, or a command before the pipe that failed, looks like that: name one thing that stays"
        )
    options = PlanOptions(
        frozenset(_kinds(prune or [], "--prune")), set_passwords, os.environ.get(VARIABLES["username"], "")
    )
    with patient_admin(bootstrap) as admin:
        plan = _checked(admin, plan_apply(wanted, find_state(admin, _looked_at(wanted, options)), options))
    passwords = passwords_of(plan, file) if not dry_run and not plan.impossible else {}
    if not as_json:
        _show(plan)
    if plan.impossible or dry_run or plan.is_empty:
        _finish(plan, None, as_json, dry_run)
        return
    _agree(plan, yes)
    bar = progress("Applying", len(plan.steps), quiet=as_json)
    with patient_admin(bootstrap) as admin, stopping_is_said(), bar as shown:
        performed = perform(admin, plan, passwords, shown.advance)
    _finish(plan, performed, as_json, dry_run)


@contextmanager
def stopping_is_said() -> Iterator[None]:
    """An interrupted request may have been done: so no step is counted, and the next run looks."""
    try:
        yield
    except KeyboardInterrupt:
        note(
            "stopped. The steps that were done stay; the same command shows those that are left, and goes on from there"
        )
        raise


def export(kind: Kinds = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Write what the cluster has as a file for `apply`: topics, configurations, users, ACLs and quotas.

    Internal topics and passwords are not in it. What may not be looked at is left out, and said. --json gives the same
    file as a text, with the kinds that were left out.
    """
    kinds = _kinds(kind or list(DeclaredKind), "--kind")
    with patient_admin(bootstrap) as admin:
        found = find_state(admin, frozenset(kinds))
    text = write_declared(found)
    if as_json:
        print_json({"file": text, "left_out": _left_out(found)})
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
        for what, why in _left_out(found).items():
            note(f"{what}: left out: {why}")


def _left_out(found: DeclaredState) -> dict[str, str]:
    brokers = {f"the configuration of broker {id_}": why for id_, why in sorted(found.unseen_brokers.items())}
    return {**{str(kind): why for kind, why in sorted(found.unseen.items())}, **brokers}


def _content(file: str) -> bytes:
    try:
        if file == STDIN:
            return sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        with open(file, "rb") as opened:
            return opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


def _kinds(words: Sequence[str], option: str) -> list[DeclaredKind]:
    known = [kind.value for kind in DeclaredKind]
    for word in words:
        if word not in known:
            raise ConfigError(f"{option} {word}: must be one of {', '.join(known)}{did_you_mean(word, known)}")
    return [DeclaredKind(word) for word in dict.fromkeys(words)]


def _looked_at(wanted: DeclaredState, options: PlanOptions) -> frozenset[DeclaredKind]:
    """The kinds that the plan is about: no right is needed for the others. Topics have configurations."""
    named = {
        DeclaredKind.TOPICS: wanted.topics,
        DeclaredKind.CONFIGS: wanted.configs,
        DeclaredKind.USERS: wanted.users,
        DeclaredKind.ACLS: wanted.acls,
        DeclaredKind.QUOTAS: wanted.quotas,
    }
    kinds = {kind for kind, things in named.items() if things} | options.prune
    return frozenset(kinds if wanted.configs else kinds - {DeclaredKind.CONFIGS})


def _checked(admin: Admin, plan: ApplyPlan) -> ApplyPlan:
    if plan.impossible or not plan.steps:
        return plan
    return ApplyPlan(plan.steps, tuple(refused(admin, plan)))


def _agree(plan: ApplyPlan, yes: bool) -> None:
    """The plan is on the screen already."""
    gone = plan.deletions
    if gone and not yes and not sys.stdin.isatty():
        raise ConfigError(
            f"--prune would delete {len(gone)} things; stdin is no terminal to ask on: add --yes to agree"
        )
    what = f"Do these {len(plan.steps)} steps"
    agree([str(step) for step in gone], f"{what}, of which {len(gone)} delete?" if gone else f"{what}?", yes=yes)


def _show(plan: ApplyPlan) -> None:
    if plan.steps:
        print_table(COLUMNS, [(step.act, step.kind, step.name, step.what) for step in plan.steps])
    for one in plan.impossible:
        note(f"cannot be done: {one.kind} {one.name}: {one.why}")


def _finish(plan: ApplyPlan, performed: AppliedSteps | None, as_json: bool, dry_run: bool) -> None:
    """Says what became of the plan, and exits with what that means."""
    if as_json:
        print_json(_json(plan, performed, dry_run))
    else:
        _tell(plan, performed, dry_run)
    if plan.impossible:
        raise typer.Exit(EXIT_IMPOSSIBLE)
    if performed is not None and performed.failed:
        raise typer.Exit(EXIT_REFUSED)
    if dry_run and plan.steps:
        raise typer.Exit(EXIT_TO_DO)


def _tell(plan: ApplyPlan, performed: AppliedSteps | None, dry_run: bool) -> None:
    if plan.impossible:
        note(f"nothing was changed: {len(plan.impossible)} things cannot be done")
    elif plan.is_empty:
        say("nothing to do")
    elif dry_run:
        note(f"{len(plan.steps)} steps would be done; nothing was changed")
    elif performed is not None:
        for step, error in performed.failed:
            note(f"refused: {step}: {error}")
        done, left = len(performed.done), len(plan.steps) - len(performed.done)
        say(f"{done} steps done" + (f", {left} not; the same command goes on from there" if left else ""))


def _json(plan: ApplyPlan, performed: AppliedSteps | None, dry_run: bool) -> dict[str, Any]:
    done = {id(step) for step in performed.done} if performed is not None else set[int]()
    errors = {id(step): str(error) for step, error in performed.failed} if performed is not None else {}
    return {
        "steps": [{**_step_json(step), "done": id(step) in done, "error": errors.get(id(step))} for step in plan.steps],
        "impossible": [{"kind": one.kind, "name": one.name, "why": one.why} for one in plan.impossible],
        "dry_run": dry_run,
    }


def _step_json(step: ApplyStep) -> dict[str, Any]:
    return {"act": step.act, "kind": step.kind, "name": step.name, "what": step.what}
