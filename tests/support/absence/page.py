"""Makes docs/while-a-broker-is-away.md: `python -m tests.support.absence.page > docs/while-a-broker-is-away.md`.

The table on it is that of table.py, of which a test runs every cell by both protocols; another test compares the page.
"""

from __future__ import annotations

import sys

from tests.support.absence.stage import KINDS
from tests.support.absence.table import ACTS, DONE, REFUSED, Act, outcome

INTRODUCTION = """# While a broker is away

Made by `python -m tests.support.absence.page`; do not edit by hand.

A cluster of three goes on while one broker is away, and everything that can be made with three can be made with two:
topics, partitions, the first group, the first transaction, users, rights. What was made meanwhile has the absent broker
among its replicas. That replica is outside the ISR; it is copied when the broker is back, and joins then.

## Where new replicas go
- A topic needs as many *registered* brokers as it has replicas, as in Kafka; the absent one is registered until
  `penstock brokers unregister`. At least one broker must be in service, to lead.
- The brokers in service come first. An absent one gets a replica where none in service can have it: too few are in
  service, or a rack would have no replica otherwise. It is never the first replica, the preferred leader.
- So what was made meanwhile is led by the others, also when the broker is back. It leads the next partitions that a
  topic gets, and `penstock cluster balance` gives it its share of all.
- `min.insync.replicas` counts as ever: three replicas, of which two are in service, take records with 2, and none with
  3.
- A broker that has just died counts as in service until it is fenced (`broker.session.timeout.ms`). A topic that is
  made in these seconds has it in its ISR, and it leaves the ISR when it is fenced.
- An absent broker with one log dir has its replica assigned to that dir, one with several chooses when it is back. A
  broker that comes back without the dir (`--lost-log-dirs`) makes the replica in another one.
- `__consumer_offsets` and `__transaction_state` are made in the same way when they are needed for the first time. They
  wait for a broker that is just starting, for one `broker.session.timeout.ms` at most, so that it leads its share.
- Replicas do not move by schedule (`auto.replica.balance.enable`) while a broker is away.

## What was tried
One of three nodes is away, in each of these ways, and each act is tried by Penstock's clients (gRPC) and in Kafka's
protocol. *done*: within ten seconds, where a silent broker is fenced after two. A test runs every cell
(`tests/unit/broker/node/test_absence.py`), and checks that all replicas are in sync when the node is back.

"""
REASONS = """
What is not done, and why:

| act | the node | outcome | why |
| --- | --- | --- | --- |
"""
ENDING = """
*waits*: clients are told COORDINATOR_NOT_AVAILABLE, with the reason, and ask again.

Real processes, real clients of Kafka and the command line do the same in `tests/interop/test_one_broker_down.py`, and
the cluster simulator draws such acts in the middle of faults ([invariant I90](invariants.md)).
"""


def reference() -> str:
    head = ["| act | " + " | ".join(kind.name for kind in KINDS) + " |", "| --- |" + " --- |" * len(KINDS)]
    rows = ["| " + " | ".join((_named(act), *(outcome(act, kind) for kind in KINDS))) + " |" for act in ACTS]
    reasons = [
        f"| {act} | {'; '.join(kind.name for kind in refusal.kinds)} | {refusal.outcome} | {refusal.why} |"
        for refusal in REFUSED
        for act in refusal.acts
    ]
    return f"{INTRODUCTION}{_lines(head)}{_lines(rows)}{REASONS}{_lines(reasons)}{ENDING}"


def _named(act: Act) -> str:
    listeners = {"Kafka's protocol alone": act.grpc is None, "gRPC alone": act.kafka is None}
    return act.name + "".join(f" ({protocol})" for protocol, is_so in listeners.items() if is_so)


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    assert DONE in reference()
    sys.stdout.write(reference())
