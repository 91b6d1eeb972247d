"""The limits of a node that are taken away one at a time, and the flood that must notice each.

A mutant is one line of MUTANTS: a constant, function or method of the node's modules by its dotted name and what stands
there instead, or a key of the configuration and its value. They are switches of the test, not of the product. Not here:
how they are played (mutants.py), and the node that has one (mutant_node.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.attack.floods.kafka_floods import LARGEST_BYTES

MUCH, MUCH_INT = 1 << 40, 1 << 30
CONNECTIONS, KAFKA = "broker.connections", "broker.kafka.connection"
PAGES, REFUSED = "broker.metrics.page", "broker.grpc.refused_calls"


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


def _has_always_room(self: Any, api: str, party: str, elements: int = 0) -> bool:
    """Messages that are decoded whether their answers have room or not."""
    return True


def _holds_nothing(self: Any, request: Any) -> None:
    """Answers that stay as objects, and are not counted, until those before them are read."""


def _rests_never(self: Any, party: str) -> None:
    """Long work that goes on in each turn of the loop."""
    self._turns.done(party)


def _takes_all_turns(self: Any, party: str) -> bool:
    """Turns of parties that all begin at once."""
    self._at_work[party] += 1
    self._total += 1
    return True


def _has_no_limits(self: Any, nowait: bool, notes: Any, limits: Any) -> None:
    """The work of a look-up by time, as much as it takes."""
    self.nowait, self.notes, self.limits = nowait, notes, limits
    self.records = self.unpacked_bytes = self.vain_batches = self.headers = self.walked_bytes = MUCH


def _takes_without_end(self: Any, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
    """Quotas for which nobody waits."""
    return 0


def _waits_for_heads(*given: Any) -> Any:
    """A page server that gives a head an hour."""
    from broker.metrics.page_server import PageLimits, PageServer

    return PageServer(*given[:4], PageLimits(head_seconds=3_600.0))


def _keeps_every_page(self: Any, peer: Any, now_ms: int) -> None:
    """Pages for operators that cut nobody."""


def _waits_for_no_page(self: Any, host: str, now_ms: int) -> int:
    """Networks that wait for no turn."""
    return 0


def _forgets_those_cut_at_once(self: Any, accepted: Any, peer: Any) -> None:
    """A page server that ends those alone that it had begun to serve."""
    if accepted.fileno() < 0:
        del self._tasks[peer]
        self._turns.gone(peer)


def _refuses_for_ever(self: Any, peer: Any, now_ms: int, is_proven: bool = False) -> bool:
    """Refusals that cost no connection."""
    return False


def _shuts_out_all(self: Any, network: str) -> float:
    """Refused calls that count like bytes."""
    self._networks[network] = max(self._networks.get(network, 0.0), self._refused.get(network, 0.0))
    return float(self._networks[network])


def _cuts_none(*looked_at: Any) -> set[Any]:
    """A look at connections that ends none."""
    return set()


def _looks_away(self: Any, received: Any, connected: Any, now_ms: int) -> Any:
    """Bytes before a log-in that cut and shut out nobody."""
    from broker.connections.byte_watch import ByteVerdict

    return ByteVerdict(set(), set())


def _is_never_slow(self: Any, *looked_at: Any) -> None:
    """A frame, or an answer, that may take as long as it likes."""


def _is_always_due(self: Any, subject: Any) -> str:
    """A line of the log for each event."""
    return ""


def _leaves_none_out(self: Any, subject: Any) -> int:
    """A line of the audit log for each event."""
    return 0


def _proves_nothing(self: Any, peer: Any, principal: str) -> None:
    """A log-in that gives a connection no better place than a stranger's."""


def _always_has_a_place(self: Any, name: Any, party: str, leaves: Any) -> bool:
    """Names without end."""
    return True


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
        "connections-of-an-address",
        "silent-connections@KAFKA/stranger/3",
        config={"max.connections.per.ip": MUCH_INT},
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
        "frames-too-large/stranger/1",
        "broker.kafka.apis.authentication.sasl.BYTES_MAX",
        LARGEST_BYTES,
    ),
    Mutant(
        "frame-size",
        "frames-too-large/mallory/1",
        config={"socket.request.max.bytes": 2_000_000_000, "queued.max.request.bytes": 2_100_000_000},
    ),
    Mutant(
        "slow-frames",
        "plain/frames-of-many-networks/anybody/66",
        f"{KAFKA}.incoming_frame.IncomingFrame.is_old",
        _is_never_old,
    ),
    Mutant("attempts", "guesses/stranger/1", "broker.authentication.attempts.OF_HOST_MAX", MUCH),
    Mutant("elements", "slowly-read-produces/mallory/1", f"{KAFKA}.element_room.OPEN_MAX", MUCH),
    Mutant(
        "small-answers",
        "heartbeats-beside-unread-answers/mallory/1",
        "broker.network.small_answers.SMALL_ANSWERS",
        frozenset(),
    ),
    Mutant(
        "messages-that-wait",
        "calls-begun-together-by-grpc/mallory/1",
        "broker.network.decoding_turns.DecodingTurns.has_room",
        _has_always_room,
    ),
    Mutant("long-work", "slowly-read-produces/mallory/1", "broker.load.long_work.LongWork._rest", _rests_never),
    Mutant(
        "answers-behind-others",
        "unread-produces/mallory/1",
        "broker.network.connection_loop.ConnectionLoop._hold",
        _holds_nothing,
    ),
    Mutant("long-texts", "unread-produces/mallory/1", "broker.kafka_codec.primitives.LONG_STRING_BYTES", MUCH_INT),
    Mutant(
        "visitors",
        "connections-that-come-and-go@BROKER/stranger/1",
        f"{CONNECTIONS}.byte_watch.LEFT_BYTES",
        0,
    ),
    Mutant("answers", "plain/unread-fetches/anybody/1", config={ANSWERS: MUCH, STALL: HOUR_MS}),
    Mutant("log-ins", "log-ins-half-done/stranger/3", f"{KAFKA}.login.LOGIN_MS_MAX", HOUR_MS),
    Mutant("log-in-frames", "frames-at-a-fair-pace/stranger/3", f"{KAFKA}.login.FRAME_MS_MAX", HOUR_MS),
    Mutant(
        "refused-calls",
        "calls-that-nobody-serves/mallory/1",
        f"{REFUSED}.RefusalCounts.is_too_many",
        _refuses_for_ever,
    ),
    Mutant(
        "neighbours",
        "refused-calls-now-and-then/stranger/neighbour",
        f"{CONNECTIONS}.byte_watch.ByteWatch._level",
        _shuts_out_all,
    ),
    Mutant("pages", "silent-connections@METRICS/stranger/1", f"{PAGES}_turns.PageTurns.came", _keeps_every_page),
    Mutant("page-heads", "dripping-scrapers/stranger/1", "broker.metrics.exposition.PageServer", _waits_for_heads),
    Mutant("page-turns", "scrapes/stranger/1", f"{PAGES}_turns.PageTurns.wait_of_network_ms", _waits_for_no_page),
    Mutant(
        "page-ends",
        "bursts-of-scrapers/stranger/120",
        f"{PAGES}_server.PageServer._ended",
        _forgets_those_cut_at_once,
    ),
    Mutant("conversions", "conversion-hog/tenant/1", "broker.load.party_turns.PartyTurns.begin", _takes_all_turns),
    Mutant("look-ups", "look-ups-in-vain/tenant/1", "storage.segment.timestamp_lookup._Work.__init__", _has_no_limits),
    Mutant("batches", "tiny-batches-by-grpc/tenant/1", "broker.grpc.produced_batches.FURTHER_BATCHES_MAX", MUCH_INT),
    Mutant("partitions", "partitions/tenant/1", "broker.quotas.client_quotas.ClientQuotas.take", _takes_without_end),
    Mutant("group-memory", "groups/tenant/1", config={"group.coordinator.memory.max.bytes": MUCH}),
    Mutant("offset-memory", "groups-that-grow/tenant/1", config={"group.coordinator.memory.max.bytes": MUCH}),
    Mutant(
        "transaction-memory", "transactional-ids/tenant/1", config={"transaction.coordinator.memory.max.bytes": MUCH}
    ),
    Mutant(
        "session-memory",
        "fetch-sessions/tenant/1",
        config={"fetch.sessions.max.bytes": MUCH},
    ),
    Mutant("pipelined", "unread-tiny-produces/mallory/1", f"{KAFKA}.served_connection.PIPELINED_MAX", MUCH_INT),
    Mutant(
        "bytes-before-log-in",
        "continuation-without-end/stranger/1",
        f"{CONNECTIONS}.byte_watch.ByteWatch.look",
        _looks_away,
    ),
    Mutant(
        "bytes-before-a-call",
        "plain/continuation-without-end/anybody/1",
        f"{CONNECTIONS}.byte_watch.ByteWatch.look",
        _looks_away,
    ),
    Mutant("bytes-under-way", "messages-without-end/mallory/1", f"{CONNECTIONS}.under_way.over_share", _cuts_none),
    Mutant(
        "pace-of-frames",
        "announced-large-frames/mallory/1",
        f"{KAFKA}.incoming_frame.IncomingFrame.crawls_since_ms",
        _is_never_slow,
    ),
    Mutant(
        "pace-of-answers",
        "unread-fetches/tenant/1",
        f"{CONNECTIONS}.draining.Draining.look",
        _is_never_slow,
    ),
    Mutant(
        "answers-of-calls",
        "unread-metadata-by-grpc/mallory/1",
        "broker.grpc.unread_answers.FREE_BYTES",
        MUCH_INT,
    ),
    Mutant(
        "places-of-users",
        "connections-to-the-limit@KAFKA/stranger/120",
        f"{CONNECTIONS}.accept_guard.AcceptGuard.proved",
        _proves_nothing,
    ),
    Mutant(
        "places-for-log-ins",
        "log-ins-that-stay/mallory/1",
        f"{CONNECTIONS}.shared_connections.OTHERS_SHARE",
        MUCH_INT,
    ),
    Mutant("names", "names-of-clients/mallory/1", "broker.network.name_places.NamePlaces.take", _always_has_a_place),
    Mutant("lines", "tagged-fields/stranger/1", "penstock.throttled_lines.ThrottledLines.due", _is_always_due),
    Mutant(
        "audit-lines",
        "refused-requests/mallory/1",
        "broker.audit.audit_log._Bound.left_out_before",
        _leaves_none_out,
    ),
    Mutant(
        "slow-level",
        "large-batches-at-slow-levels/tenant/1",
        "storage.append.recompression.SLOW_BYTES_MAX",
        MUCH_INT,
    ),
    Mutant("streams", "streams-without-end/mallory/1", "broker.grpc.servers.CONNECTION_STREAMS_MAX", MUCH_INT),
)
