"""A change as a row: its address, the fields of its form, the plan that is shown first, and what performs it.

    GET  /create-topic?name=orders     the form, with what the query says filled in
    POST /create-topic                 the plan, and the command that does the same
    POST /create-topic, sure=yes       done; leads to the page that shows it

A plan asks the cluster and changes nothing. Changes are there only with `--allow-changes`, and are made by the user's
own connection, so the cluster decides what is allowed. Not here: the token of forms, and routes (changing.py).
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.plain_text import plain_lines
from penstock.types import TopicPartition

LINES_MAX: Final = 100
PLAN_LINES_MAX: Final = 1_000
TOKEN_FILE: Final = "token"
"""The file of a person's own token in the commands that are shown; nobody can be shown a token."""
SECRET, KEPT = "secret", "kept"


@dataclass(frozen=True, slots=True)
class ChangeField:
    """One field of a form."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"
    """text, number, lines (several of them), flag, or one of `choices`. SECRET: it is typed below the plan, and no page
    or address ever has it. KEPT: the plan fills it, and the form has no place for it."""
    choices: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)
    """The meanings of choices whose names do not tell them."""
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
    must_hold: tuple[str, ...] = ()
    """The state of the cluster on which the person decides. Where it has changed since, the new plan is shown first."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Fields whose meaning moves, such as a time before now, as the plan took them."""

    @property
    def fingerprint(self) -> str:
        """Equal for two plans that do the same to the same."""
        return hashlib.sha256(repr((self.what, self.command, self.must_hold)).encode()).hexdigest()


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
        """The fields that pages and addresses may have."""
        return tuple(one.name for one in self.fields if one.kind != SECRET)

    @property
    def secrets(self) -> tuple[ChangeField, ...]:
        """The fields that are typed below the plan, and shown nowhere."""
        return tuple(one for one in self.fields if one.kind == SECRET)

    @property
    def in_form(self) -> tuple[ChangeField, ...]:
        return tuple(one for one in self.fields if one.kind not in (SECRET, KEPT))


def shell_command(asked: PageAsked, words: Sequence[str], names: Sequence[str] = (), standard_input: str = "") -> str:
    """The command with its options, then names, then how this console reaches the cluster: quoted for a shell."""
    if any("\0" in word for word in (*words, *names)):
        raise FieldError("fields", "a zero byte is in one of them, and no command line can have it")
    ends = ["--", *names] if any(name.startswith("-") for name in names) else list(names)
    reach = ["--bootstrap", asked.settings.bootstrap]
    if (tls_ca := asked.settings.connection.get("tls_ca")) is not None:
        reach += ["--tls-ca", str(tls_ca)]
    if asked.has_token:
        reach += ["--token-file", TOKEN_FILE]
    elif asked.user:
        reach += ["--username", asked.user]
    command = " ".join(map(quoted, ["penstock", *words, *reach, *ends]))
    return f"printf '%s\\n' {quoted(standard_input)} | {command}" if standard_input else command


def quoted(word: str) -> str:
    """A word for a shell. Letters that a page shows as escapes are escapes for the shell, too (bash, zsh, ksh), or the
    command that a person copies would name something else."""
    if plain_lines(word) == word:
        return shlex.quote(word)
    escaped = "".join(
        f"\\{letter}"
        if letter in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in letter.encode())
        if plain_lines(letter) != letter
        else letter
        for letter in word
    )
    return f"$'{escaped}'"


def text_lines(fields: Fields, name: str, lines_max: int = LINES_MAX) -> list[str]:
    """The lines of a field that has several, without the empty ones. Browsers send CR LF."""
    lines = [line for line in fields.text(name, "").replace("\r\n", "\n").split("\n") if line.strip()]
    if len(lines) > lines_max:
        raise FieldError(name, f"has {len(lines)} lines; at most {lines_max} are taken")
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


def raise_refusals(errors: Mapping[TopicPartition, PenstockError | None], done: str) -> None:
    """The first refusal, with how much was done beside it."""
    refused = [(at, error) for at, error in errors.items() if error is not None]
    if len(refused) == len(errors):
        raise refused[0][1]
    if refused:
        at, error = refused[0]
        raise PenstockError(
            f"{len(errors) - len(refused)} {done}, {len(refused)} not; {at.topic}:{at.partition}: {error}"
        )
