"""The table of a campaign: how often each kind of fault came under each condition, and which pairs never came.

A pair that never came is a story that no seed has told. Some cannot come: a condition needs more nodes, or work that
no plan has. Not here: what the conditions are (conditions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import ascii_lowercase

from tests.simulation.cluster.conditions import Condition
from tests.simulation.cluster.plan import Kind

Met = Mapping[tuple[str, str], int]
"""How often: by the name of the kind, and the name of the condition."""
LETTERS = ascii_lowercase + ascii_lowercase.upper()


def fault_table(faults: Mapping[str, int], met: Met) -> Iterator[str]:
    """Lines: what the columns are, a row for each kind of fault, then the pairs that never came."""
    columns = dict(zip(Condition, LETTERS, strict=False))
    yield "faults × what the cluster was doing when they came"
    for condition, letter in columns.items():
        yield f"  {letter}  {condition}"
    width = max(len(kind.name) for kind in Kind)
    yield "  ".join([" " * width, "faults", *(f"{letter:>4}" for letter in columns.values())])
    for kind in Kind:
        cells = (f"{met.get((kind.name, condition.name), 0) or '·':>4}" for condition in columns)
        yield "  ".join([kind.name.ljust(width), f"{faults.get(kind.name, 0):6}", *cells])
    yield from never(faults, met)


def never(faults: Mapping[str, int], met: Met) -> Iterator[str]:
    """The pairs that never came, by condition; a kind that never came at all is named once."""
    absent = [kind for kind in Kind if not faults.get(kind.name)]
    if absent:
        yield f"never: {', '.join(kind.name for kind in absent)}"
    present = [kind for kind in Kind if kind not in absent]
    pairs = 0
    for condition in Condition:
        missing = [kind.name for kind in present if not met.get((kind.name, condition.name))]
        pairs += len(missing)
        if missing:
            which = "any fault" if len(missing) == len(present) else ", ".join(missing)
            yield f"never while {condition}: {which}"
    yield f"{len(present) * len(Condition) - pairs} of {len(Kind) * len(Condition)} pairs came"
