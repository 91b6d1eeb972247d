"""The account that a client process gives: JSON lines on standard output, until its standard input ends.

A writer tells `[partition, offset, key, value, sent_at, acked_at]` of each acked record, and `["failed", error,
sent_at]` of one that was refused. The offset is None where librdkafka heard no answer to the record's batch, and takes
it for acked because the leader has taken the next one. A writer of transactions tells `[outcome, key, values, began_at,
ended_at]` of each, with the outcome `committed` or `aborted`, or `["failed", error, began_at]`; a reader `[partition,
offset, key, value]` of each record, a member of a group with the topic before them. Times are of the machine's
monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import sys
import threading

TICK_S = 0.02
"""Between two records, or two transactions, of a writer."""
KEYS = 16
"""The keys of a writer, each of which it uses in turn."""
FAILED = "failed"
QUIET_S = 5.0
"""A reader that was told to end has read everything once nothing came for so long."""
IN_TRANSACTION = 5
"""Records of a transaction, all of one key."""
ABORTED_EACH = 4
"""One of so many transactions is aborted on purpose."""


def tell(*facts: object) -> None:
    """One line, whole, also where several threads write."""
    sys.stdout.write(json.dumps(facts) + "\n")


def ended() -> threading.Event:
    """Set when standard input ends."""
    found = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        found.set()

    threading.Thread(target=watch, daemon=True).start()
    return found
