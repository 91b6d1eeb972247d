"""The simulators read what the product offers, and hear the rest through its probe: each private name is one here.

A name that begins with an underscore, of another object than `self` and `super()`, counts once for each time it stands
there. Not counted: the functions that mutants and exceptions name (`Edit`, `NotJudged`), and `_replace` of named
tuples, which Python documents. Add a line only with a reason that no property, no `statistics()` and no method of
`Probe` can meet.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LIE = "a lie: a healthy cluster is told what no call of the product would make of it"
PLACES = {"Edit": 0, "NotJudged": 1}
"""Which argument names a function."""
ASYNCIO = "asyncio gives a loop of one's own no other way"

COUNTED = {
    "cluster/clients/cores.py": (2, "the core of a client that users see, taken in this one place"),
    "cluster/loop.py": (1, ASYNCIO),
    "cluster/scheduler.py": (4, ASYNCIO),
    "cluster/test_claims.py": (2, LIE),
    "cluster/test_client_invariants.py": (2, LIE),
    "cluster/test_coordinator_invariants.py": (1, LIE),
    "cluster/test_invariants.py": (7, LIE),
    "cluster/test_log_places.py": (1, "a fault in the midst of a swap, at the step that the test is about"),
    "cluster/test_producer_invariants.py": (1, LIE),
    "cluster/test_replica_invariants.py": (5, LIE),
    "raft/mutants.py": (1, "a mutant that calls the function which it replaces"),
    "raft/voter_mutants.py": (1, "likewise"),
}
"""By file: how often, and why."""


def private_names(tree: ast.Module) -> Iterator[str]:
    named = {
        id(node.args[PLACES[node.func.id]])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PLACES
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in named or node.attr == "_replace":
            continue
        owner = node.value.func if isinstance(node.value, ast.Call) else node.value
        is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls", "super")
        if node.attr.startswith("_") and not node.attr.startswith("__") and not is_own:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_each_private_name_is_one_with_a_reason() -> None:
    found = {
        str(path.relative_to(HERE)): list(private_names(ast.parse(path.read_text(encoding="utf-8"))))
        for folder in ("cluster", "raft")
        for path in sorted((HERE / folder).rglob("*.py"))
    }
    wrong = {path: names for path, names in found.items() if len(names) != COUNTED.get(path, (0, ""))[0]}
    assert not wrong, "use a property, statistics() or Probe (broker/node/environment.py), and lower the number here"
    assert set(COUNTED) <= set(found)
    assert sum(count for count, _ in COUNTED.values()) <= 30
