"""A plan as Python that can be pasted and run: fields that have their default are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

from tests.simulation.cluster.plan import Plan

LINE = 110
STEP = "    "


def program_of(plan: Plan) -> str:
    """Runs the plan, and prints its transcript."""
    names: dict[str, set[str]] = {"tests.simulation.cluster.world": {"World"}}
    for kind in _kinds(plan):
        names.setdefault(kind.__module__, set()).add(kind.__name__)
    imports = [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]
    run = ["outcome = World(plan, transcript=True).run()", 'print("\\n".join([*outcome.log, *outcome.failures]))']
    return "\n".join([*imports, "", f"plan = {python_of(plan)}", *run])


def python_of(value: Any, indent: str = "") -> str:
    """An expression that makes the value; on one line where that is short."""
    short = _join(value, None)
    return short if len(indent) + len(short) <= LINE and not isinstance(value, Plan) else _join(value, indent)


def _join(value: Any, indent: str | None) -> str:
    """`indent`: a part each line; None: all on one."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    inner = None if indent is None else indent + STEP

    def part(each: Any) -> str:
        return _join(each, None) if inner is None else python_of(each, inner)

    if is_dataclass(value):
        shown = [f for f in fields(value) if f.default is MISSING or getattr(value, f.name) != f.default]
        return _brackets(
            f"{type(value).__name__}(", [f"{f.name}={part(getattr(value, f.name))}" for f in shown], ")", indent
        )
    if isinstance(value, Mapping):
        return _brackets("{", [f"{python_of(key)}: {part(each)}" for key, each in value.items()], "}", indent)
    if isinstance(value, tuple):
        parts = [part(each) for each in value]
        if indent is None and len(parts) == 1:
            return f"({parts[0]},)"
        return _brackets("(", parts, ")", indent)
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _brackets(left: str, parts: list[str], right: str, indent: str | None) -> str:
    if indent is None or not parts:
        return left + ", ".join(parts) + right
    return "\n".join([left, *(f"{indent}{STEP}{part}," for part in parts), indent + right])


def _kinds(value: Any) -> Iterator[type]:
    """The types of everything in it that has to be imported."""
    if is_dataclass(value) or isinstance(value, Enum):
        yield type(value)
    if is_dataclass(value):
        parts: tuple[Any, ...] = tuple(getattr(value, f.name) for f in fields(value))
    else:
        parts = tuple(value.values()) if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
    for each in parts:
        yield from _kinds(each)
