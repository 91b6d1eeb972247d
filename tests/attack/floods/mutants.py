"""Nodes with one limit taken away, each with the flood that must notice it: a campaign that never fails proves nothing.

A mutant is one line of MUTANTS: a constant, function or method of the node's modules by its dotted name and what stands
there instead, or a key of the configuration and its value. They are switches of the test, not of the product: such a
node is the process that ships, started by mutant_node.py.

The flood is played without the mutant first. A mutant is noticed by a bound that is missed with it alone. Where all
bounds that are missed with it are missed without it, too, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from penstock.errors import PenstockError
from penstock.testing import process
from tests.attack.floods.campaign import Settings, run
from tests.attack.floods.kafka_floods import LARGEST_BYTES
from tests.attack.floods.mutant_node import mutant_node_command
from tests.attack.floods.table import ROWS
from tests.attack.floods.verdict import MISSED, Played

MUCH, MUCH_INT = 1 << 40, 1 << 30
CONNECTIONS, KAFKA = "broker.connections", "broker.kafka.connection"


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


def _cuts_nobody(self: Any, connected: Any, with_streams: Any, now_ms: int) -> set[Any]:
    """A connection guard that lets everybody stay."""
    return set()


def _is_never_old(self: Any, now_ms: int) -> bool:
    """A frame that gives way to nobody."""
    return False


NOTICED, NOT_NOTICED = "noticed", "NOT NOTICED"
UNDECIDED: Final = "undecided: the same bounds are missed without it"
STALL, ANSWERS = "connections.max.write.stall.ms", "queued.max.response.bytes"
HOUR_MS: Final = 3_600_000
MUTANTS: Final = (
    Mutant(
        "connections-kafka",
        "silent-connections@KAFKA/stranger/1",
        f"{CONNECTIONS}.accept_guard.AcceptGuard.came",
        _admits,
    ),
    Mutant(
        "connections-grpc",
        "silent-connections@BROKER/stranger/1",
        f"{CONNECTIONS}.connection_guard.ConnectionGuard.look",
        _cuts_nobody,
    ),
    Mutant("handshake-kafka", "half-handshakes@KAFKA/stranger/1", f"{KAFKA}.tls_handshake.HANDSHAKE_SECONDS", 3_600.0),
    Mutant("handshake-grpc", "half-handshakes@BROKER/stranger/3", "broker.grpc.servers.HANDSHAKE_MS_MAX", HOUR_MS),
    Mutant(
        "size-before-log-in",
        "announced-large-frames/stranger/1",
        "broker.kafka.apis.authentication.sasl.BYTES_MAX",
        LARGEST_BYTES,
    ),
    Mutant(
        "frame-size",
        "frames-above-the-limit/mallory/1",
        config={"socket.request.max.bytes": 2_000_000_000, "queued.max.request.bytes": 2_100_000_000},
    ),
    Mutant(
        "slow-frames",
        "plain/frames-of-many-networks/anybody/66",
        f"{KAFKA}.incoming_frame.IncomingFrame.is_old",
        _is_never_old,
    ),
    Mutant("lobby-bytes", "messages-without-end/stranger/3", "broker.grpc.lobby.BYTES_MAX", MUCH),
    Mutant("attempts", "guesses/stranger/1", "broker.authentication.attempts.OF_HOST_MAX", MUCH),
    Mutant("elements", "huge-arrays/mallory/1", f"{KAFKA}.element_room.OPEN_MAX", MUCH),
    Mutant(
        "small-answers",
        "heartbeats-beside-unread-answers/mallory/1",
        "broker.network.small_answers.SMALL_ANSWERS",
        frozenset(),
    ),
    Mutant("answers", "plain/unread-fetches/anybody/1", config={ANSWERS: MUCH, STALL: HOUR_MS}),
    Mutant(
        "session-memory",
        "fetch-sessions/tenant/1",
        config={"fetch.sessions.max.bytes": MUCH, "max.incremental.fetch.session.cache.slots": MUCH_INT},
    ),
)


@contextmanager
def nodes_of(mutant: Mutant) -> Iterator[None]:
    """The nodes that a Cluster starts within are the mutant's."""
    if not mutant.attribute:
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
        try:
            with nodes_of(mutant):
                after = run([rows[mutant.flood]], settings, _silent, mutant.config)[0]
        except PenstockError as error:  # the node refuses such a configuration
            print(f"| {mutant.name} | {mutant.flood} | {_told(before)} | {error!r:.300} | no node |", flush=True)
            wrong += 1
            continue
        verdict = judged(before, after)
        wrong += verdict == NOT_NOTICED
        print(f"| {mutant.name} | {mutant.flood} | {_told(before)} | {_told(after)} | {verdict} |", flush=True)
    return 1 if wrong else 0


def judged(before: Played, after: Played) -> str:
    """The verdict about a mutant, by its flood without it and with it."""
    if after.kinds_of_misses - before.kinds_of_misses:
        return NOTICED
    return UNDECIDED if before.verdict == MISSED else NOT_NOTICED


def _silent(played: Played) -> None:
    """A mutant has its own line."""


def _told(played: Played) -> str:
    return "; ".join([played.verdict, *played.misses])
