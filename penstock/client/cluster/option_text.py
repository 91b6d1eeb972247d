"""What people read about options, from the table that also checks them (config.py): for `help()` and for the docs."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.client.cluster.options import MAX_INT32

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


def range_words(field: dataclasses.Field[Any]) -> list[str]:
    """The acceptable values: the words of a closed list, or one text like '1 to 1000'; maybe none."""
    limits = field.metadata
    if "choices" in limits:
        return list(limits["choices"])
    if limits.get("type") is bool:
        return ["True", "False"]
    if "low" in limits:
        low, high = limits["low"], limits["high"]
        return [f"from {low}" if high >= MAX_INT32 else f"{low} to {high}"]
    return []


def _help_lines(config: Any) -> str:
    indent, deeper = "    ", " " * 8
    lines: list[str] = []
    for field in dataclasses.fields(config):
        words = ", ".join(range_words(field))
        lines.append(f"{indent}{field.name} = {field.default!r}{f'  ({words})' if words else ''}")
        lines += textwrap.wrap(field.metadata["doc"], HELP_COLUMNS, initial_indent=deeper, subsequent_indent=deeper)
    return "\n".join(lines) + "\n"
