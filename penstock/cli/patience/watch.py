"""Watches a command in a thread of its own, and says on stderr what it waits for: see stall.py.

The reason is what the client itself waits for (`waiting_for` of a producer or consumer), and what is wrong with the
cluster by its own description.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.cli.patience.stall import Stall, WaitProgress
from penstock.clock import SystemClock
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock import Admin
    from penstock.messages.cluster import ClusterInfo

LOOK_SECONDS = 0.5
REASONS_MAX = 3
FIRST_CONTACT_MS = 2_000
"""Time limit of commands that ask once: a person waits, so a wrong address is told soon. Others have the client's."""
ASK_MS = 1_000
"""Time limit of the description of the cluster: a node that hangs is not waited for."""


@contextmanager
def patience(progress: Callable[[], WaitProgress], reason: Callable[[], str]) -> Iterator[None]:
    """Says what the work inside waits for."""
    ended = threading.Event()
    stall, clock = Stall(reason, lambda text: None if ended.is_set() else note(f"penstock: {text}")), SystemClock()

    def watch() -> None:
        try:
            stall.look(progress(), clock.now_ms())  # the patience begins with the work
            while not ended.wait(LOOK_SECONDS):
                stall.look(progress(), clock.now_ms())
        except Exception:
            if not ended.is_set():  # otherwise the process ends, and the clients' loop with it
                raise

    thread = threading.Thread(target=watch, name="patience", daemon=True)
    thread.start()
    try:
        yield
        stall.end(clock.now_ms())
    finally:
        ended.set()


@contextmanager
def patient_admin(bootstrap: str) -> Iterator[Admin]:
    """An admin client whose calls say what they wait for."""
    from penstock import Admin

    reasons = Reasons(bootstrap)
    otherwise = f"an answer of the cluster, asked at {bootstrap}"
    connecting = Admin(bootstrap, bootstrap_timeout_ms=FIRST_CONTACT_MS)
    with (
        connecting as admin,
        patience(lambda: WaitProgress(is_waiting=True), lambda: reasons.of(admin.waiting_for(), otherwise)),
    ):
        yield admin


class Reasons:
    """Words for what a client waits for, and for what is wrong with the cluster. The cluster is asked from the second
    time on: that takes a while, and a person should not wait for the first words."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_first = True

    def of(self, waits: Sequence[object], otherwise: str) -> str:
        """`otherwise` stands for waits that the client does not know."""
        reasons = [str(wait) for wait in waits[:REASONS_MAX]]
        if len(waits) > REASONS_MAX:
            reasons.append(f"and {len(waits) - REASONS_MAX} more reasons")
        trouble = "" if self._is_first else cluster_trouble(self._bootstrap)
        self._is_first = False
        return "; ".join([*(reasons or [otherwise]), *([f"the cluster: {trouble}"] if trouble else [])])


def cluster_trouble(bootstrap: str) -> str:
    """The trouble of the cluster, by its own description; "" without trouble."""
    from penstock import Admin

    try:
        with Admin(
            bootstrap, bootstrap_timeout_ms=ASK_MS, default_api_timeout_ms=ASK_MS, request_timeout_ms=ASK_MS
        ) as admin:
            return described_trouble(admin.describe_cluster())
    except PenstockError as error:
        return str(error)


def described_trouble(info: ClusterInfo) -> str:
    """The trouble of the cluster that this description tells; "" without trouble."""
    found = []
    if info.controller_id < 0:
        found.append("the quorum has no leader (`penstock cluster health` says more)")
    fenced = [str(broker.node_id) for broker in info.brokers if broker.fenced]
    if fenced:
        found.append(f"out of service: broker {', '.join(fenced)}")
    if info.offline_partitions:
        found.append(f"{info.offline_partitions} partitions have no leader")
    if info.standing.under_min_isr:
        count, node = info.standing.under_min_isr, info.standing.node_id
        found.append(f"{count} partitions led by broker {node} have fewer replicas in sync than min.insync.replicas")
    return ", ".join(found)
