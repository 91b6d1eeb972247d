"""Decides what happens to the nodes of a host: which process starts, ends, is started again, or is given up.

    STARTING    READY=1 is awaited, START_MS after the last sign that it gets on
    RUNNING     WATCHDOG=1 comes at least every WATCHDOG_MS
    STOPPING    asked to end; killed STOP_MS after the last sign that it gets on
    WAITING     ended by itself, and is started again when RESTART_MS are over
    STOPPED     ended as it was asked to, or by itself with exit code 0
    REFUSED     exit code 2: its configuration or its directories were refused, and another start would say the same
    FAILED      ended STARTS_MAX times within STARTS_WITHIN_MS; a person should look

These are the rules of the unit of a single node (ops/systemd/penstock@.service), so that a node lives the same life
either way. Each node stands alone: one that is refused stops none of the others. A restart that is asked for counts for
no limit. Not here: processes, signals and messages (host_process.py), and in which order nodes are restarted: who asks
decides it, one node at a time (penstock/cli/host/rolling.py), because only the cluster knows when the next one may go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Final

from penstock.lazy_dataclass import dataclass

START_MS: Final = 15 * 60_000
STOP_MS: Final = 2 * 60_000
WATCHDOG_MS: Final = 30_000
RESTART_MS: Final = 2_000
STARTS_MAX: Final = 5
STARTS_WITHIN_MS: Final = 300_000
EXIT_REFUSED: Final = 2
_EXTEND: Final = "EXTEND_TIMEOUT_USEC="


class NodeState(Enum):
    """The life of one node of the host."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"
    STOPPED = "stopped"
    REFUSED = "refused"
    FAILED = "failed"


HAS_PROCESS: Final = frozenset({NodeState.STARTING, NodeState.RUNNING, NodeState.STOPPING})


class ProcessAct(Enum):
    """One thing that the driver does to a node's process."""

    SPAWN = "spawn"
    TERMINATE = "terminate"
    KILL = "kill"
    ABORT = "abort"
    """SIGABRT, as systemd's watchdog sends it: the process may write the stacks of its threads."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing to do, and the line of the host's log that says why; "" for none."""

    node_id: int
    act: ProcessAct | None
    said: str = ""


class _Node:
    """One node. The times are of the monotonic clock."""

    def __init__(self) -> None:
        self.state = NodeState.STOPPED
        self.since_ms = 0
        self.due_ms: int | None = None
        """When something is done if nothing is heard until then."""
        self.comes_back = False
        """A process that is stopping is followed by another one."""
        self.stood_still = False
        """The process is being ended because its event loop did not turn."""
        self.ends_ms: deque[int] = deque(maxlen=STARTS_MAX)
        """When it ended by itself."""
        self.restarts = 0
        self.last_end = ""


class HostCore:
    """The nodes of one host. No I/O: what happens is told with its time, and what is to be done comes back."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._nodes = {node_id: _Node() for node_id in node_ids}
        self._ends = False

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self._nodes)

    @property
    def is_over(self) -> bool:
        """The host was told to stop, and no process is left."""
        return self._ends and not any(node.state in HAS_PROCESS for node in self._nodes.values())

    @property
    def is_settled(self) -> bool:
        """No node starts or waits for its start: each runs, or a person has to look."""
        return not any(node.state in (NodeState.STARTING, NodeState.WAITING) for node in self._nodes.values())

    @property
    def next_deadline_ms(self) -> int | None:
        return min((node.due_ms for node in self._nodes.values() if node.due_ms is not None), default=None)

    def state_of(self, node_id: int) -> NodeState:
        return self._nodes[node_id].state

    def since_ms(self, node_id: int) -> int:
        """When the node came into its state."""
        return self._nodes[node_id].since_ms

    def restarts_of(self, node_id: int) -> int:
        """How often it was started again after it had ended by itself."""
        return self._nodes[node_id].restarts

    def last_end_of(self, node_id: int) -> str:
        """How its last process ended; "" if none has."""
        return self._nodes[node_id].last_end

    def count(self, state: NodeState) -> int:
        return sum(node.state is state for node in self._nodes.values())

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def start_all(self, now_ms: int) -> list[Effect]:
        """Every node at once: they wait for each other's quorum."""
        return [self._spawn(node_id, now_ms) for node_id in self._nodes]

    def restart(self, node_id: int, now_ms: int) -> list[Effect]:
        """The node's process ends in order, and another one starts; a node without a process is started. Nothing while
        the host stops."""
        node = self._nodes[node_id]
        if self._ends:
            return []
        node.ends_ms.clear()
        if node.state not in HAS_PROCESS:
            return [self._spawn(node_id, now_ms, "started, as asked")]
        node.comes_back = True
        if node.state is NodeState.STOPPING:
            return []
        return [self._stop(node_id, now_ms, "restarts, as asked")]

    def stop(self, node_id: int, now_ms: int) -> list[Effect]:
        """The node ends in order, and stays so until it is restarted."""
        node = self._nodes[node_id]
        node.comes_back = False
        if node.state is NodeState.STOPPING:
            return []
        if node.state not in HAS_PROCESS:
            self._into(node, NodeState.STOPPED, now_ms)
            return []
        return [self._stop(node_id, now_ms, "stops, as asked")]

    def stop_all(self, now_ms: int) -> list[Effect]:
        """The host ends: every node at once, and none comes back."""
        self._ends = True
        return [effect for node_id in self._nodes for effect in self.stop(node_id, now_ms)]

    # -- what happens --------------------------------------------------------------------------------------------------

    def heard(self, node_id: int, line: str, now_ms: int) -> list[Effect]:
        """A line of a message of the node (sd_notify(3))."""
        node = self._nodes[node_id]
        if line == "READY=1" and node.state is NodeState.STARTING:
            self._into(node, NodeState.RUNNING, now_ms, WATCHDOG_MS)
            return [Effect(node_id, None, "is in service")]
        if line == "WATCHDOG=1" and node.state is NodeState.RUNNING:
            node.due_ms = now_ms + WATCHDOG_MS
        if line.startswith(_EXTEND) and node.due_ms is not None and node.state is not NodeState.RUNNING:
            micros = line.removeprefix(_EXTEND)
            more_ms = int(micros) // 1000 if micros.isdecimal() else 0
            node.due_ms = max(node.due_ms, now_ms + min(more_ms, START_MS))
        return []

    def ended(self, node_id: int, exit_code: int, now_ms: int) -> list[Effect]:
        """The node's process has ended; a negative code is the signal that ended it."""
        node = self._nodes[node_id]
        was_asked = node.state is NodeState.STOPPING and not node.stood_still
        node.last_end = f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"
        if node.state is NodeState.STOPPING and node.comes_back and not self._ends:
            return [self._spawn(node_id, now_ms)]
        if was_asked or exit_code == 0 or self._ends:
            self._into(node, NodeState.STOPPED, now_ms)
            return [Effect(node_id, None, f"has ended ({node.last_end})")]
        if exit_code == EXIT_REFUSED:
            self._into(node, NodeState.REFUSED, now_ms)
            return [Effect(node_id, None, "was refused: its own last line says why; correct it, then restart the node")]
        node.ends_ms.append(now_ms)
        if len(node.ends_ms) == STARTS_MAX and now_ms - node.ends_ms[0] <= STARTS_WITHIN_MS:
            self._into(node, NodeState.FAILED, now_ms)
            gone = f"has ended {STARTS_MAX} times in {STARTS_WITHIN_MS // 1000} s ({node.last_end}), and is left"
            return [Effect(node_id, None, f"{gone}; find the cause, then restart the node")]
        self._into(node, NodeState.WAITING, now_ms, RESTART_MS)
        return [Effect(node_id, None, f"has ended ({node.last_end}); it is started again in {RESTART_MS // 1000} s")]

    def tick(self, now_ms: int) -> list[Effect]:
        """The effects of all that is due."""
        effects = []
        for node_id, node in self._nodes.items():
            if node.due_ms is None or now_ms < node.due_ms:
                continue
            if node.state is NodeState.WAITING:
                node.restarts += 1
                effects.append(self._spawn(node_id, now_ms))
                continue
            if node.state is NodeState.RUNNING:
                node.stood_still = True
                self._into(node, NodeState.STOPPING, now_ms, STOP_MS)
                effects.append(
                    Effect(node_id, ProcessAct.ABORT, f"its event loop has stood still for {WATCHDOG_MS // 1000} s")
                )
            else:
                node.due_ms = now_ms + STOP_MS  # again, should a disk that hangs keep the process from ending
                word = "start" if node.state is NodeState.STARTING else "stop"
                effects.append(Effect(node_id, ProcessAct.KILL, f"its {word} does not get on; it is killed"))
        return effects

    def _spawn(self, node_id: int, now_ms: int, said: str = "") -> Effect:
        node = self._nodes[node_id]
        node.comes_back = node.stood_still = False
        self._into(node, NodeState.STARTING, now_ms, START_MS)
        return Effect(node_id, ProcessAct.SPAWN, said)

    def _stop(self, node_id: int, now_ms: int, said: str) -> Effect:
        self._into(self._nodes[node_id], NodeState.STOPPING, now_ms, STOP_MS)
        return Effect(node_id, ProcessAct.TERMINATE, said)

    @staticmethod
    def _into(node: _Node, state: NodeState, now_ms: int, due_in_ms: int | None = None) -> None:
        node.state, node.since_ms = state, now_ms
        node.due_ms = None if due_in_ms is None else now_ms + due_in_ms

    def __repr__(self) -> str:
        return f"HostCore({ {node_id: node.state.value for node_id, node in self._nodes.items()} })"
