"""`penstock users create|alter|list|delete`: the users that may log in with a password (KIP-554).

A user's password is kept for one or more mechanisms; each could have another one, so these commands change all that the
user has together. A new password comes from a person or a script: never from an argument, which other users of the
machine could see. At a terminal it is asked for twice, and not shown. A script gives it in a file or on standard input:
the first line. Not here: what a user may do.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.edge.several import only_or_all
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError, DuplicateResourceError, ResourceNotFoundError
from penstock.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, PASSWORD_BYTES_MAX, ScramMechanism

if TYPE_CHECKING:
    from penstock import Admin
    from penstock.client.admin.security.users import UserScramCredentialAlteration

app = typer.Typer(help="Users that log in with a password: add, change, show and delete them.", no_args_is_help=True)

BOTH = tuple(one.sasl_name for one in ScramMechanism)
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The users' names.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help=f"How the user may log in: {' or '.join(BOTH)}; may be repeated."),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        min=ITERATIONS_MIN,
        max=ITERATIONS_MAX,
        help="How often the password is hashed before it is kept.",
    ),
]

NewPasswordFile = Annotated[
    str | None,
    typer.Option(
        "--new-password-file",
        metavar="FILE",
        help="The user's password is the first line of this file; '-': of standard input. Otherwise it is asked for.",
    ),
]


def new_password(file: str | None) -> str:
    """The password; ConfigError for no password, or two that differ."""
    if file is None and sys.stdin.isatty():
        password = getpass.getpass("New password: ")
        if password and getpass.getpass("Again: ") != password:
            raise ConfigError("the two passwords differ; nothing was changed")
        source = "the terminal"
    elif file in (None, "-"):
        password, source = _first_line(sys.stdin, "standard input"), "standard input"
    else:
        return password_in(str(file), "--new-password-file")
    return checked_password(password, source)


def password_in(file: str, named_by: str) -> str:
    """The password in the first line of the file; ConfigError, which says what has named the file."""
    try:
        with open(file, encoding="utf-8-sig") as lines:
            return checked_password(_first_line(lines, file), file)
    except OSError as error:
        raise ConfigError(f"{named_by} {file}: {error.strerror}") from error


def checked_password(password: str, source: str) -> str:
    """The password; ConfigError if it is empty or too long."""
    if not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise ConfigError(f"{source} gives no password: its first line must have 1 to {PASSWORD_BYTES_MAX} bytes")
    return password


def _first_line(lines: TextIO, name: str) -> str:
    try:
        return lines.readline(4 * PASSWORD_BYTES_MAX).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: a password must be UTF-8") from error


@app.command("create")
def add(
    name: Name,
    mechanisms: Mechanisms = None,
    iterations: Iterations = ITERATIONS_MIN,
    new_password_file: NewPasswordFile = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create a user with a password. It may log in by both mechanisms, or only by those that are given.

    The password is asked for at the terminal, or comes from a file or standard input; never from the command line.
    """
    wanted = _checked(mechanisms) or BOTH
    password = "" if dry_run else new_password(new_password_file)
    with patient_admin(bootstrap) as admin:
        if admin.describe_user_scram_credentials([name]):
            raise DuplicateResourceError(f"user {name!r} exists; `penstock users alter` changes its password")
        if not dry_run:
            _set(admin, name, password, wanted, iterations, ())
    _tell([name], "added", as_json, dry_run)


@app.command("alter")
def set_password(
    name: Name,
    mechanisms: Mechanisms = None,
    iterations: Iterations = ITERATIONS_MIN,
    new_password_file: NewPasswordFile = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Change a user's password for all mechanisms that it has. The old password logs in no more.

    With --mechanism the user has those from then on, and no other. Connections that are logged in stay, until they end
    or must log in again (connections.max.reauth.ms).
    """
    given = _checked(mechanisms)
    password = "" if dry_run else new_password(new_password_file)
    with patient_admin(bootstrap) as admin:
        has = _mechanisms_of(admin, name)
        wanted = given or has
        if not dry_run:
            _set(admin, name, password, wanted, iterations, [one for one in has if one not in wanted])
    _tell([name], "changed", as_json, dry_run)


@app.command("list")
def list_users(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show all users that can log in with a password, and by which mechanisms."""
    with patient_admin(bootstrap) as admin:
        found = admin.describe_user_scram_credentials()
    if as_json:
        print_json([{"user": one.user, "mechanisms": dict(one.mechanisms)} for one in found.values()])
    else:
        rows = [(one.user, ", ".join(one.mechanisms)) for one in found.values()]
        print_table(["user", "mechanisms"], rows)


@app.command()
def delete(
    names: Names,
    mechanisms: Mechanisms = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="It is no error that a user is not there.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete users, or with --mechanism only this way to log in. Their ACLs and their certificates stay.

    Connections that are logged in stay, until they end or must log in again (connections.max.reauth.ms). At a terminal
    it asks.
    """
    from penstock.client.admin.admin_types import UserScramCredentialDeletion

    given, names = _checked(mechanisms), list(dict.fromkeys(names))
    with patient_admin(bootstrap) as admin:
        there = admin.describe_user_scram_credentials(names) if if_exists else None
        missing = [] if there is None else [name for name in names if name not in there]
        names = [name for name in names if name not in missing]
        has = {name: given or _mechanisms_of(admin, name) for name in names}
    if names and not dry_run:
        agree([f"{name}: {', '.join(ways)}" for name, ways in has.items()], f"Delete {', '.join(names)}?", yes=yes)
        with patient_admin(bootstrap) as admin:
            _alter(admin, [UserScramCredentialDeletion(name, one) for name, ways in has.items() for one in ways])
    _tell(names, "deleted", as_json, dry_run)
    for name in missing if not as_json else ():
        say(f"{name} does not exist; there is nothing to delete")


def _checked(mechanisms: list[str] | None) -> tuple[str, ...]:
    for one in mechanisms or ():
        if one not in BOTH:
            raise ConfigError(f"--mechanism {one}: must be one of {', '.join(BOTH)}{did_you_mean(one, BOTH)}")
    return tuple(dict.fromkeys(mechanisms or ()))


def _mechanisms_of(admin: Admin, name: str) -> tuple[str, ...]:
    found = admin.describe_user_scram_credentials([name])
    if name not in found:
        raise ResourceNotFoundError(f"there is no user {name!r}; `penstock users list` shows all")
    return tuple(found[name].mechanisms)


def _set(
    admin: Admin, name: str, password: str, mechanisms: Iterable[str], iterations: int, gone: Iterable[str]
) -> None:
    from penstock.client.admin.admin_types import UserScramCredentialDeletion, UserScramCredentialUpsertion

    made: list[UserScramCredentialAlteration] = [UserScramCredentialDeletion(name, one) for one in gone]
    made += [UserScramCredentialUpsertion(name, password, one, iterations) for one in mechanisms]
    _alter(admin, made)


def _alter(admin: Admin, alterations: Sequence[UserScramCredentialAlteration]) -> None:
    for error in admin.alter_user_scram_credentials(alterations).values():
        if error is not None:
            raise error


def _tell(names: Sequence[str], done: str, as_json: bool, dry_run: bool) -> None:
    if as_json:
        dry = {"dry_run": True} if dry_run else {}
        print_json(only_or_all([{"user": name, done: not dry_run, **dry} for name in names]))
        return
    for name in names:
        say(f"would be {done}: {name}" if dry_run else f"{done} {name}")


app.command("add", hidden=True)(add)


app.command("set-password", hidden=True)(set_password)
