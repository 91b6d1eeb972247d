"""Wrong usage of a command, told in one line on stderr; typer itself would print several, in a box.

Shared by `penstock` and by the pipelines, which are commands of their own. Call the typer app with
`standalone_mode=False`, or typer catches the error before this module sees it. Not here: what else may go wrong in a
command (run.py).
"""

from __future__ import annotations

import sys
from typing import cast

import typer

EXIT_USAGE = 2
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""The UsageError of the click that typer uses. Some releases of typer bring their own click and export only subclasses
of it."""
OF_PYDANTIC = "Value error, "
"""Begins the words of each ValueError that pydantic has caught for typer; it tells a user nothing."""


def show_usage(command: str, error: typer.BadParameter) -> None:
    """One line: what is wrong, the value that was given, and the `--help` that lists the right ones."""
    if type(error).__name__ != "NoArgsIsHelpError":  # of a group without a sub-command, which shows its help
        sys.stderr.write(f"{command}: {usage_message(command, error)}\n")
    elif error.format_message():
        error.show()


def usage_message(command: str, error: typer.BadParameter) -> str:
    """The text of that line."""
    message = " ".join(error.format_message().replace(OF_PYDANTIC, "").split()).rstrip(".")
    path = error.ctx.command_path if error.ctx is not None else command
    return f"{message}{_given(error)}; see `{path} --help`"


def _given(error: typer.BadParameter) -> str:
    """The given value, if the message lacks it: pydantic checks values for typer and does not name them."""
    errors = getattr(error.__cause__, "errors", None)
    return f" (given: {errors()[0]['input']!r})" if callable(errors) else ""
