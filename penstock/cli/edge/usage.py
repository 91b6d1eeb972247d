"""Wrong usage of a command, told in one line on stderr; typer itself would print several, in a box.

Shared by `penstock` and by the pipelines, which are commands of their own. Call the typer app with
`standalone_mode=False`, or typer catches the error before this module sees it. Not here: what else may go wrong in a
command (run.py).
"""

from __future__ import annotations

import re
import sys
from typing import cast

import typer

from penstock.plain_text import one_line

EXIT_USAGE = 2
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""The UsageError of the click that typer uses. Some releases of typer bring their own click and export only subclasses
of it."""
OUR_WORDS = (
    (re.compile("Value error, "), ""),
    (re.compile(r"Input should be a valid integer.*"), "must be a whole number"),
    (re.compile(r"Unable to parse input string as an integer.*"), "must be a whole number of fewer digits"),
    (re.compile(r"Input should be a valid number.*"), "must be a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"must be \1 or more"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"must be \1 or less"),
    (re.compile(r"Input should be greater than (\S+)"), r"must be more than \1"),
    (re.compile(r"Input should be less than (\S+)"), r"must be less than \1"),
)
"""The texts of pydantic, which checks values for typer, and ours: its words are a programmer's."""


def show_usage(command: str, error: typer.BadParameter) -> None:
    """One line: what is wrong, the value that was given, and the `--help` that lists the right ones."""
    if type(error).__name__ != "NoArgsIsHelpError":  # of a group without a sub-command, which shows its help
        sys.stderr.write(one_line(f"{command}: {usage_message(command, error)}") + "\n")
    elif error.format_message():
        error.show()


def usage_message(command: str, error: typer.BadParameter) -> str:
    """The text of that line."""
    message = " ".join(error.format_message().split()).rstrip(".")
    for theirs, ours in OUR_WORDS:
        message = theirs.sub(ours, message)
    path = error.ctx.command_path if error.ctx is not None else command
    return f"{message}{_given(error)}; see `{path} --help`"


def _given(error: typer.BadParameter) -> str:
    """The given value, if the message lacks it: pydantic checks values for typer and does not name them."""
    errors = getattr(error.__cause__, "errors", None)
    return f" (given: {errors()[0]['input']!r})" if callable(errors) else ""
