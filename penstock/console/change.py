"""A change as a row: its address, the fields of its form, the plan that is shown first, and what performs it.

    GET  /create-topic?name=orders     the form, with what the query says filled in
    POST /create-topic                 the plan, and the command that does the same
    POST /create-topic, sure=yes       done; leads to the page that shows it

A plan asks the cluster and changes nothing. Changes are there only with `--allow-changes`, and are made by the user's
own connection, so the cluster decides what is allowed. Not here: the token of forms, and routes (changing.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked

LINES_MAX: Final = 100
PLAN_LINES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class ChangeField:
    """One field of a form."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"
    """text, number, lines (several of them), flag, or one of `choices`."""
    choices: tuple[str, ...] = ()
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A change before it is made."""

    what: str
    command: str
    """The shell command that does the same."""
    lines: tuple[str, ...] = ()
    confirm: str = ""
    """A word that must be typed before it is done; "" for what can be undone."""


@dataclass(frozen=True, slots=True)
class ConsoleChange:
    """One row of the table."""

    path: str
    title: str
    fields: tuple[ChangeField, ...]
    plan: Callable[[PageAsked], Awaitable[ChangePlan]]
    perform: Callable[[PageAsked], Awaitable[str]]
    """Does it; the address of the page that shows it."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)


def shell_command(asked: PageAsked, words: Sequence[str], names: Sequence[str] = (), standard_input: str = "") -> str:
    """The command with its options, then names, then how this console reaches the cluster: quoted for a shell."""
    ends = ["--", *names] if any(name.startswith("-") for name in names) else list(names)
    reach = ["--bootstrap", asked.settings.bootstrap]
    if (tls_ca := asked.settings.connection.get("tls_ca")) is not None:
        reach += ["--tls-ca", str(tls_ca)]
    if asked.user:
        reach += ["--username", asked.user]
    command = shlex.join(["penstock", *words, *reach, *ends])
    return f"printf '%s\\n' {shlex.quote(standard_input)} | {command}" if standard_input else command


def text_lines(fields: Fields, name: str) -> list[str]:
    """The lines of a field that has several, without the empty ones. Browsers send CR LF."""
    lines = [line for line in fields.text(name, "").replace("\r\n", "\n").split("\n") if line.strip()]
    if len(lines) > LINES_MAX:
        raise FieldError(name, f"has {len(lines)} lines; at most {LINES_MAX} are taken")
    return lines


def pairs_of(fields: Fields, name: str) -> dict[str, str]:
    """The lines `key=value` of a field; FieldError for another line, and for a key that comes twice."""
    found: dict[str, str] = {}
    for line in text_lines(fields, name):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise FieldError(name, f"{line[:64]!r} must be key=value")
        if key.strip() in found:
            raise FieldError(name, f"{key.strip()[:64]} is given twice")
        found[key.strip()] = value.strip()
    return found
