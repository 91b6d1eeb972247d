"""Takes a new password from a person or a script: never from an argument, which other users of the machine could see.

At a terminal it is asked for twice, and not shown. A script gives it in a file or on standard input: the first line.
"""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, TextIO

import typer

from penstock.errors import ConfigError
from penstock.sasl.credentials import PASSWORD_BYTES_MAX

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
        try:
            with open(str(file), encoding="utf-8-sig") as lines:
                password, source = _first_line(lines, str(file)), str(file)
        except OSError as error:
            raise ConfigError(f"--new-password-file {file}: {error.strerror}") from error
    if not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise ConfigError(f"{source} gives no password: its first line must have 1 to {PASSWORD_BYTES_MAX} bytes")
    return password


def _first_line(lines: TextIO, name: str) -> str:
    try:
        return lines.readline(4 * PASSWORD_BYTES_MAX).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: a password must be UTF-8") from error
