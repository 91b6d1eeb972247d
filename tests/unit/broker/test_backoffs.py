"""Promise: no back-off of a node outlasts an outage by more than two seconds.

A client finds a cluster that is back within its own `retry_backoff_max_ms`, a second. Behind it a node may still wait
before it loads a group's partition again, or makes a topic, as long as its own failures in a row have made its wait.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import broker

WAIT_MS_MAX = 2_000
OF_THE_CONFIGURATION = {"broker/authentication/tokens/node_tokens.py"}
"""`sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms`: a key server is another's."""


def test_no_back_off_grows_beyond_two_seconds() -> None:
    root = Path(broker.__file__).parent
    found: dict[str, int] = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root.parent).as_posix()
        for call in ast.walk(ast.parse(path.read_text())):
            is_made = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Backoff"
            if is_made and name not in OF_THE_CONFIGURATION:
                assert isinstance(call, ast.Call)
                module = import_module(name.removesuffix(".py").replace("/", "."))
                found[name] = getattr(module, ast.unparse(call.args[1]))
    assert len(found) >= 10 and {name: ms for name, ms in found.items() if ms > WAIT_MS_MAX} == {}
