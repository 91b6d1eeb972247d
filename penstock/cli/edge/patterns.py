"""`--pattern` of commands that list things by name: a regular expression of RE2, which matches a name whole.

It is the syntax of `Consumer.subscribe(pattern=…)` and of `transactions list --pattern`. The names are looked at here,
by the command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from penstock.errors import ConfigError

Pattern = Annotated[
    str,
    typer.Option(
        "--pattern", metavar="RE2", help="Only names that this regular expression matches whole: 'orders-.*'."
    ),
]


def matching(pattern: str) -> Callable[[str], bool]:
    """True for the names that match; for every name without a pattern. ConfigError for one that cannot be read."""
    if not pattern:
        return lambda name: True
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        raise ConfigError(
            f"--pattern {pattern}: {why.decode(errors='replace') if isinstance(why, bytes) else why}"
        ) from None
    return lambda name: expression.fullmatch(name) is not None
