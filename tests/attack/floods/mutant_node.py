"""A node without one of its limits: `penstock.node`, with one name of its modules replaced. The first argument is the
mutant's name.

Everything else is the process that ships. The module is imported before any other of the node's, so that those which
import the name from it get what stands there now. mutant_table.py has the table.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from penstock.node import main, prepare_path


def mutant_node_command(mutant: str, *arguments: str) -> list[str]:
    """Replaces `penstock.node.node_command`."""
    return [sys.executable, "-P", "-m", "tests.attack.floods.mutant_node", mutant, *arguments]


def found(dotted: str) -> tuple[Any, str]:
    """The module or class that has this name, and its last part; AttributeError if there is nothing of the name."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            holder: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:-1]:
            holder = getattr(holder, part)
        getattr(holder, parts[-1])
        return holder, parts[-1]
    raise ModuleNotFoundError(f"no module of {dotted}")


if __name__ == "__main__":
    prepare_path()
    from tests.attack.floods.mutant_table import MUTANTS

    name = sys.argv.pop(1)
    mutant = next(one for one in MUTANTS if one.name == name)
    holder, last = found(mutant.attribute)
    setattr(holder, last, mutant.value)
    sys.exit(main())
