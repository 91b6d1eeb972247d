"""The options of a campaign: one frozen dataclass, whose fields are the arguments of its command line.

    @dataclass(frozen=True, slots=True)
    class Options:
        seed: int = 1
        minutes: float = option(1.0, "of faults")

A field that `option` makes is an argument: `--minutes`, with the type of its default. A tuple is given by repeating the
argument, or as `nargs` or `type` say; with `positional` it has no name on the command line. A field without `option` is
for callers in code alone. `words_of` is the way back, from options to the command line that gives them. Not here: seeds
and the number of runs, which are the frame's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import Field, field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def option(default: T, help_text: str, **more: Any) -> T:
    """A field that is an argument of the command line; `more` is argparse's."""
    return field(default=default, metadata={"help": help_text, **more})


def commas(text: str) -> tuple[str, ...]:
    """The type of an argument that is a list with commas."""
    return tuple(text.split(","))


def add_to(parser: argparse.ArgumentParser, kind: type) -> None:
    """Declares the arguments of the class of options."""
    for one in _declared(kind):
        given = dict(one.metadata)
        if given.pop("positional", False):
            parser.add_argument(one.name, nargs="*", **given)
            continue
        if isinstance(one.default, bool):
            given["action"] = "store_true"
        elif isinstance(one.default, tuple):
            if not {"type", "nargs", "action"} & given.keys():
                given["action"] = "append"
        else:
            given.setdefault("type", type(one.default))
        parser.add_argument(_flag(one), dest=one.name, default=None, **given)


def taken(given: argparse.Namespace, kind: type[T]) -> T:
    """The options that were given; the others have their defaults."""
    found = {one.name: getattr(given, one.name) for one in _declared(kind)}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in found.items()
            if value is not None and value is not False
        }
    )


def words_of(options: object) -> list[str]:
    """The command line that gives these options."""
    words: list[str] = []
    for one in _declared(type(options)):
        value = getattr(options, one.name)
        if value == one.default:
            continue
        if isinstance(value, bool):
            words.append(_flag(one))
        elif "positional" in one.metadata:
            words += map(str, value)
        elif not isinstance(value, tuple):
            words += [_flag(one), str(value)]
        elif one.metadata.get("type") is commas:
            words += [_flag(one), ",".join(value)]
        elif "nargs" in one.metadata:
            words += [_flag(one), *map(str, value)]
        else:
            words += [word for each in value for word in (_flag(one), str(each))]
    return words


def _declared(kind: type) -> Iterator[Field[Any]]:
    return (one for one in fields(kind) if "help" in one.metadata)


def _flag(one: Field[Any]) -> str:
    return f"--{one.name.replace('_', '-')}"
