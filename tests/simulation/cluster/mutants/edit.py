"""Mistakes to switch on in shipped code, each a change of a line or two of one function, for the time of a `with`.

    with switched_on(mutant): outcome = World(plan).run()

A mutant is written as text: in the source of a function, `old` is replaced by `new`. The function keeps its identity
and gets other code, so it does not matter who has imported it. `old` must occur exactly once: a mutant whose place has
changed is an error, and not a mutant that does nothing. Not here: which mistakes (the modules beside this one), and
which seeds they are tried on (hunt.py).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from tests.simulation.cluster.plan import Kind, Plan


@dataclass(frozen=True, slots=True)
class Edit:
    """In `place` (a function, a method, a property or a context manager), `old` becomes `new`."""

    place: Any
    old: str
    new: str

    @property
    def function(self) -> FunctionType:
        place = self.place.fget if isinstance(self.place, property) else getattr(self.place, "__func__", self.place)
        found = inspect.unwrap(place)
        assert isinstance(found, FunctionType), f"{self.place!r} has no source"
        return found


def code_of(function: FunctionType, edits: Iterable[Edit]) -> CodeType:
    """The function's code with these edits."""
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        count = source.count(edit.old)
        assert count == 1, f"{function.__qualname__}: {edit.old!r} stands there {count} times"
        source = source.replace(edit.old, edit.new)
    tree = ast.parse(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    module = compile(tree, function.__code__.co_filename, "exec")  # inherits this module's own future: annotations
    return next(part for part in module.co_consts if isinstance(part, CodeType) and part.co_name == definition.name)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake. `history` is the row of the published histories, or of this project's faults, that it stands for."""

    name: str
    history: str
    edits: tuple[Edit, ...]
    kinds: tuple[Kind, ...] = ()
    """The faults that bring it out: seeds that have many of them are tried first."""
    is_replicated: bool | None = True
    """True if a plan must have followers; None when it does not matter."""
    stories: tuple[Plan, ...] = ()
    """Plans by hand that bring it out, tried first."""
    is_late: bool = False
    """Only messages that are overtaken bring it out."""


@contextmanager
def switched_on(mutant: Mutant | None) -> Iterator[None]:
    """The shipped code has this mistake meanwhile; None: it has none."""
    by_function: dict[FunctionType, list[Edit]] = {}
    for edit in mutant.edits if mutant is not None else ():
        by_function.setdefault(edit.function, []).append(edit)
    changed = [(function, function.__code__, code_of(function, edits)) for function, edits in by_function.items()]
    try:
        for function, _, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code, _ in changed:
            function.__code__ = code
