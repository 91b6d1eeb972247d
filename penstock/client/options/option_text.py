"""Texts about options, from the table that also checks them (config.py): for `help()` and for the docs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.config_keys import ConfigKey, Kind, keys_of

HELP_COLUMNS = 100
HEAD = "Options, as keyword arguments (docs/clients.md explains errors, too):"

C = TypeVar("C")


def with_option_help(config: Any) -> Callable[[type[C]], type[C]]:
    """A class decorator: `help()` of a client shows its options after what the class says of itself."""

    def documented(client: type[C]) -> type[C]:
        if client.__doc__:  # python -OO has none
            client.__doc__ = f"{client.__doc__.rstrip()}\n\n    {HEAD}\n\n{_help_lines(config)}"
        return client

    return documented


def range_words(key: ConfigKey) -> list[str]:
    """The acceptable values: the words of a closed list, or one text like '1 to 1000'; maybe none."""
    if key.kind is Kind.BOOL:
        return ["True", "False"]
    return [key.span] if key.kind is Kind.INT else list(key.choices)


def _help_lines(config: Any) -> str:
    indent, deeper = "    ", " " * 8
    lines: list[str] = []
    for key in keys_of(config).values():
        words = ", ".join(range_words(key))
        lines.append(f"{indent}{key.name} = {key.default!r}{f'  ({words})' if words else ''}")
        lines += textwrap.wrap(key.doc, HELP_COLUMNS, initial_indent=deeper, subsequent_indent=deeper)
    return "\n".join(lines) + "\n"
