"""docs/replica-states.md, drawn from the table:
`python -m broker.replication.hosting.state_diagram > docs/replica-states.md`.

A test holds the page against the table.
"""

from __future__ import annotations

import sys

from broker.replication.hosting.replica_states import MEANING, TRANSITIONS

_INTRODUCTION = """# The states of a replica on its broker

Drawn from `broker/replication/hosting/replica_states.py` by `python -m broker.replication.hosting.state_diagram`; do
not edit by hand. Every replica begins as Absent. A broker that starts finds some of its logs Damaged or OutOfUse before
it knows what is assigned to it.

"""
_LOGS = """
Storage knows nothing of replicas. Its table of logs (`storage/log_dirs/log_table.py`) has states of its own, because a
log may be here for which there is no replica:

| A log is | when |
| --- | --- |
| in use | its replica is Opened, Led, Followed or Held; or the start found it, and the metadata is not read yet |
| offline | its replica is Broken, Damaged, GivenUp or OutOfUse; if only a change of the log failed, it stays in use |
| left behind | its log dir has failed, and its replica was deleted or moved away since |
| vanished | its directory held flushed records, and is gone: the replica is WithoutLog, if it must not begin empty |
"""


def page_of_replica_states() -> str:
    """Markdown, with a diagram in Mermaid's language."""
    rows = [f"| {state.value} | {meaning} |" for state, meaning in MEANING.items()]
    lines = [
        f"    {state.value} --> {after.value}: {event.value}"
        for state, events in TRANSITIONS.items()
        for event, after in events.items()
    ]
    table = "\n".join([f"{_INTRODUCTION}| State | The replica |", "| --- | --- |", *rows, _LOGS])
    return "\n".join([table, "```mermaid", "stateDiagram-v2", *lines, "```", ""])


if __name__ == "__main__":
    sys.stdout.write(page_of_replica_states())
