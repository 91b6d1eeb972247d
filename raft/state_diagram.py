"""docs/raft-states.md, drawn from the table: `python -m raft.state_diagram > docs/raft-states.md`.

A test holds the page against the table.
"""

from __future__ import annotations

import sys

from raft.quorum_state import TRANSITIONS

INTRODUCTION = """# The states of a node in the quorum

Drawn from `raft/quorum_state.py` by `python -m raft.state_diagram`; do not edit by hand. Every node begins in the state
that its quorum-state file tells: a leader comes back as Resigned, because the end of its log may be gone. What the
states mean stands in that module; an observer is Unattached or Follower and nothing else.

"""


def page() -> str:
    """Markdown, with a diagram in Mermaid's language."""
    lines = [
        f"    {state.value} --> {target.value}: {why}"
        for state, targets in TRANSITIONS.items()
        for target, why in targets.items()
    ]
    return "\n".join([f"{INTRODUCTION}```mermaid", "stateDiagram-v2", *lines, "```", ""])


if __name__ == "__main__":
    sys.stdout.write(page())
