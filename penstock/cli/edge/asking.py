"""Asks before a command does what cannot be undone: it shows what would be done, and does it after a yes.

A person at a terminal is asked. A script is not: a command whose standard input is no terminal does what it says, as
ever; `--dry-run` shows it first. Not here: unclean elections, for which a script must say --yes (elect_leaders.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from penstock.cli.output import note
from penstock.plain_text import one_line

LINES_MAX: Final = 20
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask; nobody is asked where stdin is no terminal.")]


def agree(plan: Sequence[str], question: str, *, yes: bool) -> None:
    """Returns where it may be done; typer.Abort ends the command otherwise. `plan` has a line for each thing."""
    if yes or not sys.stdin.isatty():
        return
    for line in plan[:LINES_MAX]:
        note(line)
    if len(plan) > LINES_MAX:
        note(f"and {len(plan) - LINES_MAX} more")
    typer.confirm(one_line(f"{question} It cannot be undone."), abort=True, err=True)
