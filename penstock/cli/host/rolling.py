"""Restarts a host's nodes one after another, each when the cluster can spare it.

    before a node     every replica is in sync, no partition is offline, and the quorum has its majority
    then              the host restarts the node, and it is in service again
    after the last    every replica is in sync

Nodes without a process (given up, or stopped) are started first, with no wait for the cluster: it misses them already,
and is whole only with them. A node that the caller names waits for its turn if it runs. Not here: the processes
(broker/host/host_core.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.client.admin.health.health_check import OK, WARNING
from penstock.errors import PenstockError, TimedOutError

if TYPE_CHECKING:
    from penstock import Admin

LOOK_S = 1.0
NEEDED = ("quorum", "controller", "offline partitions", "min.insync.replicas", "replicas")
"""The checks of `penstock cluster health` that must be ok before a node stops."""
GIVEN_UP = ("refused", "failed", "stopped")
Ask = Callable[[str, int | None], dict[str, Any]]


def restarted(
    ask: Ask,
    admin: Admin,
    only: int | None,
    wait_ms: int,
    *,
    now_ms: Callable[[], int] = lambda: int(time.monotonic() * 1_000),
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yields a line for each step. PenstockError where a node does not come back; TimedOutError where a wait is
    over."""
    waits = _Waits(ask, admin, wait_ms, now_ms, pause)
    nodes = sorted(ask("status", None)["nodes"], key=lambda node: bool(node["pid"]))
    for node in nodes:
        node_id = node["node"]
        if only not in (None, node_id):
            continue
        if node["pid"]:
            waits.until_whole(f"node {node_id} was not restarted")
        began_ms = now_ms()
        ask("restart", node_id)
        waits.until_running(node_id, node["pid"])
        yield f"node {node_id} is in service again after {(now_ms() - began_ms) / 1_000:.1f} s"
    if only is not None and all(node["node"] != only for node in nodes):
        raise PenstockError(f"this host has no node {only}; `penstock host status` shows those that it has")
    waits.until_whole("every node was restarted")
    yield "every replica is in sync"


class _Waits:
    """The waits of one restart."""

    def __init__(
        self, ask: Ask, admin: Admin, wait_ms: int, now_ms: Callable[[], int], pause: Callable[[float], None]
    ) -> None:
        self._ask, self._admin, self._wait_ms = ask, admin, wait_ms
        self._now_ms, self._pause = now_ms, pause

    def until_whole(self, then: str) -> None:
        """Returns when nothing is missing; TimedOutError says what is, and `then`."""
        deadline_ms = self._now_ms() + self._wait_ms
        while missing := self._missing():
            if self._now_ms() >= deadline_ms:
                raise TimedOutError(f"{then}: after {self._wait_ms // 60_000} minutes, {missing}")
            self._pause(LOOK_S)

    def _missing(self) -> str:
        try:
            checks = self._admin.cluster_health().checks
        except PenstockError as error:  # the node that is restarted was the one that was asked
            return f"no broker tells the cluster's health ({error})"
        return next(
            (f"{c.name}: {c.summary}" for c in checks if c.name in NEEDED and c.status not in (OK, WARNING)), ""
        )

    def until_running(self, node_id: int, before: int | None) -> None:
        """Returns when another process of the node than `before` is in service."""
        deadline_ms = self._now_ms() + self._wait_ms
        while True:
            node = next(one for one in self._ask("status", None)["nodes"] if one["node"] == node_id)
            is_new = node["pid"] != before
            if is_new and node["state"] == "running":
                return
            if node["state"] in GIVEN_UP and node["pid"] is None:
                raise PenstockError(
                    f"node {node_id} has not come back: it is {node['state']} ({node['last_end']}); the host's log says"
                    " why. No other node was restarted"
                )
            if self._now_ms() >= deadline_ms:
                says = node["says"] or node["state"]
                raise TimedOutError(f"node {node_id} is not in service after {self._wait_ms // 60_000} minutes: {says}")
            self._pause(LOOK_S / 4)
