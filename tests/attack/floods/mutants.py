"""Nodes with one limit taken away, each with the flood that must notice it: a campaign that never fails proves nothing.

A mutant is one line of MUTANTS: a constant, function or method of the node's modules by its dotted name and what stands
there instead, or a key of the configuration and its value. They are switches of the test, not of the product: such a
node is the process that ships, started by mutant_node.py.

The flood is played without the mutant first. Where it misses its bounds then, nothing can be said of the mutant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from penstock.testing import process
from tests.attack.floods.campaign import Settings, run
from tests.attack.floods.mutant_node import mutant_node_command
from tests.attack.floods.table import ROWS
from tests.attack.floods.verdict import MISSED, Played

MUCH: Final = 1 << 40


@dataclass(frozen=True)
class Mutant:
    """One limit that is taken away."""

    name: str
    flood: str
    """The name of its row."""
    attribute: str = ""
    value: Any = None
    config: Mapping[str, object] = field(default_factory=dict)


def _admits(self: Any, peer: Any, now_ms: int) -> Any:
    """An accept guard that takes everybody."""
    from broker.connections.accept_guard import STAYS

    return STAYS


def _enters(self: Any, host: str) -> bool:
    self._under_way[host] += 1
    self._total += 1
    return True


def _leaves(self: Any, host: str) -> None:
    self._total -= 1


def _nobody_stalls(self: Any, writing_since_ms: Any, now_ms: int) -> set[Any]:
    return set()


MUTANTS: Final = (
    Mutant(
        "connections-kafka",
        "silent-connections@KAFKA/stranger/1",
        "broker.connections.accept_guard.AcceptGuard.came",
        _admits,
    ),
    Mutant(
        "connections-grpc",
        "silent-connections@BROKER/stranger/1",
        "broker.connections.connection_guard.ConnectionGuard.look",
        lambda self, *told: set(),
    ),
    Mutant(
        "handshake-time-kafka",
        "half-handshakes@KAFKA/stranger/1",
        "broker.kafka.connection.tls_handshake.HANDSHAKE_SECONDS",
        3_600.0,
    ),
    Mutant(
        "handshake-time-grpc", "half-handshakes@BROKER/stranger/3", "broker.grpc.servers.HANDSHAKE_MS_MAX", 3_600_000
    ),
    Mutant("lobby-bytes", "messages-without-end/stranger/3", "broker.grpc.lobby.BYTES_MAX", MUCH),
    Mutant("elements", "huge-arrays/mallory/1", "broker.kafka.connection.element_room.OPEN_MAX", MUCH),
    Mutant(
        "answers",
        "plain/unread-fetches/anybody/3",
        config={"queued.max.response.bytes": MUCH, "connections.max.write.stall.ms": 3_600_000},
    ),
    Mutant("attempts", "guesses/stranger/1", "broker.authentication.attempts.Attempts.enter", _enters),
    Mutant("frame-size", "frames-above-the-limit/mallory/1", config={"socket.request.max.bytes": (1 << 31) - 1}),
    Mutant(
        "streams-of-a-connection",
        "streams-without-end/stranger/1",
        "broker.grpc.servers.CONNECTION_STREAMS_MAX",
        1 << 30,
    ),
    Mutant(
        "session-memory",
        "fetch-sessions/tenant/1",
        config={"max.incremental.fetch.session.cache.slots": 1 << 30, "fetch.sessions.max.bytes": MUCH},
    ),
)


@contextmanager
def nodes_of(mutant: Mutant | None) -> Iterator[None]:
    """The nodes that a Cluster starts within are the mutant's."""
    if mutant is None or not mutant.attribute:
        yield
        return
    name = mutant.name
    with patch.object(process, "node_command", lambda *arguments: mutant_node_command(name, *arguments)):
        yield


def run_all(only: Sequence[str], settings: Settings) -> int:
    """Every mutant that is named, or all; 1 if one is not noticed."""
    wanted = [one for one in MUTANTS if not only or any(part in one.name for part in only)]
    rows = {row.name: row for row in ROWS}
    quiet: dict[str, Played] = {}
    wrong = 0
    print("| mutant | flood | without it | with it | verdict |\n| --- | --- | --- | --- | --- |", flush=True)
    for mutant in wanted:
        if mutant.flood not in quiet:
            quiet[mutant.flood] = run([rows[mutant.flood]], settings, _silent)[0]
        before = quiet[mutant.flood]
        with nodes_of(mutant):
            after = run([rows[mutant.flood]], settings, _silent, mutant.config)[0]
        if before.verdict == MISSED:
            verdict = "undecided: the flood is missed without it, too"
        else:
            verdict = "noticed" if after.verdict == MISSED else "NOT NOTICED"
            wrong += after.verdict != MISSED
        print(f"| {mutant.name} | {mutant.flood} | {_told(before)} | {_told(after)} | {verdict} |", flush=True)
    return 1 if wrong else 0


def _silent(played: Played) -> None:
    """A mutant has its own line."""


def _told(played: Played) -> str:
    return "; ".join([played.verdict, *played.misses])
