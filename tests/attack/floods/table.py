"""The table of floods: which flood, at which listener, by whom, from how many addresses, and what it may cost.

A row without bounds of its own has the default ones (Bounds), so a new flood is one line. Names of rows are
`flood/who/addresses`, with `plain` before them where the cluster has neither TLS nor users.

    stranger    has no key
    mallory     logs in, and has no right
    tenant      has all rights to its own names, and none to others
    anybody     of the plain cluster, where nobody has a name and everybody may do everything

A flooder that logs in has the address of the honest clients, unless it has many; the others have other addresses, but
for their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.attack.floods.connection_floods import CONNECTION_FLOODS
from tests.attack.floods.coordinator_floods import COORDINATOR_FLOODS
from tests.attack.floods.grpc_floods import GRPC_FLOODS
from tests.attack.floods.herd import Steps
from tests.attack.floods.kafka_floods import KAFKA_FLOODS
from tests.attack.floods.links import Target
from tests.attack.floods.name_floods import NAME_FLOODS
from tests.attack.floods.record_floods import RECORD_FLOODS
from tests.attack.floods.slow_reader_floods import SLOW_READER_FLOODS

STRANGER, MALLORY, TENANT, ANYBODY = "stranger", "mallory", "tenant", "anybody"
FLOODS: Final[dict[str, Callable[[Target], Steps]]] = {
    **KAFKA_FLOODS,
    **CONNECTION_FLOODS,
    **GRPC_FLOODS,
    **COORDINATOR_FLOODS,
    **NAME_FLOODS,
    **RECORD_FLOODS,
    **SLOW_READER_FLOODS,
}
CONNECTIONS_MAX: Final = 400
"""max.connections of the node that is flooded."""
MANY, FEW = 50, 3
SIX: Final = "::1"


@dataclass(frozen=True)
class Bounds:
    """The most that a flood may cost, above what there is without it."""

    rate: float = 0.5
    """The least part of the acts a second alone that honest clients still do beside it."""
    pause_s: float = 3.0
    """The longest time in which a kind of honest client gets nothing done."""
    memory_mib: float = 128
    descriptors: float = CONNECTIONS_MAX + 100
    threads: float = 32
    log_kib: float = 160
    """The lines that the node writes to its log; beside honest clients alone some 2 KiB a second."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures of the flooder by their names, at most so much; `left` are descriptors that the node has in the end."""


@dataclass(frozen=True)
class Row:
    """One flood of the campaign."""

    flood: str
    who: str
    addresses: int = 1
    bounds: Bounds = Bounds()
    seconds: float = 0.0
    """0: as long as others."""
    spoils: bool = False
    """True: it leaves something behind, so the next flood gets a new cluster."""
    host: str = ""
    """Another address of the node than 127.0.0.1."""
    is_neighbour: bool = False
    """True: it has the address of the honest clients, and no key."""

    config: Mapping[str, object] = field(default_factory=dict)
    """The node's own for this flood, which has a cluster of its own then."""

    @property
    def is_plain(self) -> bool:
        return self.who == ANYBODY

    @property
    def door(self) -> str:
        name, _, door = self.flood.partition("@")
        if door:
            return door
        if name in GRPC_FLOODS or name.endswith("by-grpc"):
            return "BROKER"
        return "METRICS" if "scrape" in name else "KAFKA"

    @property
    def name(self) -> str:
        return f"{'plain/' if self.is_plain else ''}{self.flood}/{self.who}/{self.whence}"

    @property
    def whence(self) -> str:
        """How many addresses, or which one."""
        return self.host or ("neighbour" if self.is_neighbour else str(self.addresses))


HELD_BY_LOG_IN: Final = Bounds(figures={"oldest_s": 7.5})
"""Handshakes have 5 s, and are looked for every second."""
ADDRESS_MAX: Final = 20
OF_ADDRESS: Final = Bounds(descriptors=FEW * ADDRESS_MAX + 60)
"""max.connections.per.ip of each address, and what honest clients have when they log in anew."""
NONE_WHOLE: Final = Bounds(figures={"whole": 0})
"""A frame that is too large is refused by its size, and not read."""
PACE: Final = Bounds(figures={"oldest_s": 5.0})
"""A frame may come too slowly for connections.max.write.stall.ms, which is 1 s here, and they are looked for every
second."""
LOG_INS: Final = Bounds(figures={"oldest_s": 33})
"""A connection has 30 s to log in."""
FRAMES_BEFORE_LOG_IN: Final = Bounds(figures={"oldest_s": 7.5})
"""A frame has 5 s then, and they are looked for every second."""
HEADS: Final = Bounds(figures={"oldest_s": 13})
"""A page's request has 10 s, once its network has its turn."""
GROUPS, OFFSETS, IDS = (Bounds(figures={"taken": most}) for most in (1_800, 30, 550))
"""Names that a coordinator takes of one party: half of 4 MiB has 26 groups of 80 kB, or some 1,600 with long names;
half of 1 MiB has some 450 ids."""
SESSIONS: Final = Bounds(figures={"taken": 230})
"""Half of 32 MiB has 209 sessions of 100 partitions."""
PAGES: Final = Bounds(figures={"pages": 450})
"""50 a second."""
REFUSED: Final = Bounds(figures={"of_link": 250})
"""Fifty calls each. The flooder hears of the end of a connection some time after the two that it may have."""
ALL_PLACES: Final = Bounds(rate=0.25, descriptors=250)
"""Nobody has a place while 120 networks have one each, which is half of the time."""
PARTITIONS: Final = Bounds(descriptors=2_000, log_kib=384, figures={"partitions": 1_500})
"""Eleven seconds' worth of the quota at once, then 50 a second. New logs are open, up to the node's limit of files; and
each topic has a line of the log, of some 150 bytes."""
CUT: Final = Bounds(figures={"left": 25})
"""Connections that do not read are cut after connections.max.write.stall.ms, which is 1 s here. Beside those of honest
clients that come and go, none is left."""
CUT_S, CUT_IN_TURN_S = 8, 24
"""So long until all are cut. A connection whose answer waits for the share of its party has none that it does not read:
it is cut in its turn. Of a party's fetches a connection has 4 MiB of 32 (an eighth of the connections, and with four
streams each a tenth of them), and a turn takes two looks, which is 2 s."""
PATIENT: Final = {"connections.max.write.stall.ms": 30_000}
"""As by default: a connection that reads nothing stays for the whole flood."""
SHARES: Final = Bounds(memory_mib=160)
"""A party's share of requests (56 MiB) and of answers (8 MiB and one answer) is full, and one request is worked on."""
AS_OBJECTS: Final = Bounds(memory_mib=256)
"""Forty connections with TLS, and a party's share of requests (56 MiB). All of these may come whole in one turn of the
loop, and are there as objects, too, until the first of their answers counts."""
HUNDRED: Final = Bounds(memory_mib=224)
"""A hundred connections with TLS, each with a small answer that is written and one that is ready, and a share."""
UNDER_WAY: Final = Bounds(memory_mib=256)
"""Thirty connections with TLS, half of queued.max.request.bytes of messages that gRPC's library has and the node has
not (64 MiB), and a share of answers."""
PIECES: Final = Bounds(rate=0.35)
"""A quarter of the loop goes in pieces of 50 ms, because protobuf decodes a message in one; each holds up a client that
waits for every answer."""
MANY_PARTITIONS: Final = Bounds(memory_mib=224)
"""30 connections have four streams each."""
SLOWLY_S: Final = 20
"""So long that a node which builds an answer a second, and has no room for it, would be far above its memory."""
LOOK_UPS: Final = Bounds(figures={"look_up_s": 2.5})
"""A look-up, the rest after the one before, and the two seconds after which one that waits is refused."""
LARGEST_BATCH: Final = Bounds(memory_mib=320)
"""A batch of 60 MiB as it is unpacked and as bytes of its own, and what zstd's level 12 takes for it, in two threads at
most."""
OPEN_REQUESTS: Final = Bounds(memory_mib=32)
"""One connection with a full buffer, and a few requests."""
NAMES: Final = Bounds(figures={"client_names": 100, "libraries": 50})
"""Half of the places, for a party that is alone with most of them."""
SEEN_LATER: Final = Bounds(descriptors=5_000)
"""gRPC accepts every connection, and the node counts them afterwards; the last limit is a quarter of the open files."""
BETWEEN_TWO_LOOKS: Final = Bounds(memory_mib=256)
"""Some 20 to 40 MB come before the node looks at a new connection, which it does every tenth of a second. gRPC's
library keeps each header in five times its bytes until the connection is cut."""
SECURED: Final = (
    # Below the protocols
    Row("silent-connections@KAFKA", STRANGER),
    Row("silent-connections@KAFKA", STRANGER, FEW, OF_ADDRESS, config={"max.connections.per.ip": ADDRESS_MAX}),
    Row("silent-connections@BROKER", STRANGER, bounds=Bounds(descriptors=CONNECTIONS_MAX + 250)),
    Row("silent-connections@METRICS", STRANGER, bounds=Bounds(descriptors=100)),
    Row("half-handshakes@KAFKA", STRANGER, bounds=HELD_BY_LOG_IN, seconds=9),
    Row("half-handshakes@BROKER", STRANGER, FEW, bounds=HELD_BY_LOG_IN, seconds=9),
    Row("handshakes@KAFKA", STRANGER, FEW),
    Row("handshakes@BROKER", STRANGER),
    Row("connections-that-come-and-go@BROKER", STRANGER, bounds=SEEN_LATER),
    Row("connections-that-come-and-go@KAFKA", STRANGER),
    Row("connections-to-the-limit@KAFKA", STRANGER, 120),
    Row("connections-to-the-limit@BROKER", STRANGER, 120, SEEN_LATER),
    # Kafka's frames, before a log-in
    Row("announced-frames", STRANGER),
    Row("announced-frames", STRANGER, FEW),
    Row("announced-frames", STRANGER, MANY),
    Row("announced-large-frames", STRANGER),
    Row("frames-too-large", STRANGER, bounds=NONE_WHOLE),
    Row("dripping-frames", STRANGER, FEW),
    Row("frames-at-a-fair-pace", STRANGER, FEW, FRAMES_BEFORE_LOG_IN, seconds=10),
    Row("tagged-fields", STRANGER, bounds=Bounds(log_kib=32)),
    Row("pipelined", STRANGER),
    Row("client-ids", STRANGER),
    Row("guesses", STRANGER, bounds=Bounds(figures={"heard_percent": 60})),
    Row("guesses", STRANGER, MANY),
    Row("guesses", STRANGER, is_neighbour=True),
    Row("log-ins-half-done", STRANGER, FEW, LOG_INS, seconds=36),
    # By a user without rights
    Row("announced-frames", MALLORY),
    Row("announced-large-frames", MALLORY, bounds=PACE, seconds=9),
    Row("announced-large-frames", MALLORY, MANY),
    Row("announced-frames-of-all-sizes", MALLORY),
    Row("frames-above-the-limit", MALLORY),
    Row("frames-too-large", MALLORY, bounds=NONE_WHOLE),
    Row("large-frames", MALLORY),
    Row("tagged-fields-large", MALLORY),
    Row("huge-arrays", MALLORY),
    Row("refused-produces", MALLORY),
    Row("array-that-is-announced", MALLORY),
    Row("metadata-of-all-topics", MALLORY),
    Row("refused-requests", MALLORY),
    Row("log-ins", MALLORY),
    Row("log-ins-that-stay", MALLORY, seconds=15),
    Row("names-of-clients", MALLORY, bounds=NAMES),
    Row("unread-metadata", MALLORY, bounds=CUT, seconds=CUT_S),
    Row("slowly-read-metadata", MALLORY, bounds=SHARES, seconds=SLOWLY_S),
    Row("slowly-read-names", MALLORY, bounds=AS_OBJECTS, seconds=SLOWLY_S),
    Row("slowly-read-produces", MALLORY, bounds=SHARES, seconds=SLOWLY_S),
    Row("slowly-read-look-ups", MALLORY, bounds=SHARES, seconds=SLOWLY_S),
    Row("unread-produces", MALLORY, bounds=HUNDRED, seconds=SLOWLY_S, config=PATIENT),
    Row("unread-tiny-produces", MALLORY, bounds=OPEN_REQUESTS, seconds=SLOWLY_S, config=PATIENT),
    Row("unread-small-answers", MALLORY),
    Row("heartbeats-beside-unread-answers", MALLORY, bounds=Bounds(figures={"heartbeat_s": 1.0})),
    # By a tenant
    Row("unread-fetches", TENANT, bounds=CUT, seconds=CUT_IN_TURN_S),
    Row("large-frames", TENANT),
    Row("conversion-hog", TENANT, bounds=Bounds(memory_mib=192), seconds=10, spoils=True),
    Row("large-batches-at-slow-levels", TENANT, bounds=LARGEST_BATCH, spoils=True),
    Row("look-ups-in-vain", TENANT, bounds=LOOK_UPS, seconds=10, spoils=True),
    Row("tiny-batches-by-grpc", TENANT),
    Row("fetches-far-from-the-index", TENANT, seconds=12, spoils=True),
    Row("look-ups-far-from-the-index", TENANT, bounds=LOOK_UPS, seconds=12, spoils=True),
    Row("segments-without-end", TENANT, seconds=12, spoils=True),
    Row("fetch-sessions", TENANT, bounds=SESSIONS, seconds=10),
    Row("producer-ids", TENANT),
    Row("members", TENANT, spoils=True),
    Row("groups", TENANT, bounds=GROUPS, spoils=True),
    Row("groups-that-grow", TENANT, bounds=OFFSETS, spoils=True),
    Row("partitions", TENANT, bounds=PARTITIONS, spoils=True),
    Row("transactional-ids", TENANT, bounds=IDS, spoils=True),
    # gRPC
    Row("continuation-without-end", STRANGER, bounds=BETWEEN_TWO_LOOKS),
    Row("rapid-reset", STRANGER),
    Row("calls", STRANGER),
    Row("calls-that-nobody-serves", STRANGER),
    Row("refused-calls-now-and-then", STRANGER, is_neighbour=True),
    Row("health-checks", STRANGER),
    Row("reflection", STRANGER),
    Row("log-ins-by-grpc", STRANGER),
    Row("pings", STRANGER),
    Row("streams-without-end", STRANGER),
    Row("messages-without-end", STRANGER, FEW),
    Row("calls", MALLORY),
    Row("calls-that-nobody-serves", MALLORY, bounds=REFUSED),
    Row("streams-without-end", MALLORY),
    Row("messages-without-end", MALLORY),
    Row("huge-arrays-by-grpc", MALLORY),
    Row("large-calls-by-grpc", MALLORY, bounds=PIECES),
    Row("middling-calls-by-grpc", MALLORY, bounds=PIECES),
    Row("changes-of-the-quorum-by-grpc", MALLORY),
    Row("unread-metadata-by-grpc", MALLORY, bounds=CUT, seconds=CUT_S),
    Row("unread-produces-by-grpc", MALLORY, bounds=MANY_PARTITIONS, seconds=SLOWLY_S, config=PATIENT),
    Row("calls-begun-together-by-grpc", MALLORY, bounds=UNDER_WAY, seconds=SLOWLY_S, config=PATIENT),
    Row("unread-fetches-by-grpc", TENANT, bounds=CUT, seconds=CUT_IN_TURN_S),
    # By IPv6
    Row("announced-frames", STRANGER, host=SIX),
    Row("announced-frames", MALLORY, host=SIX),
    Row("unread-fetches", TENANT, host=SIX),
    # Metrics
    Row("scrapes", STRANGER, bounds=PAGES),
    Row("scrapes-unread", STRANGER),
    Row("bursts-of-scrapers", STRANGER, 120, ALL_PLACES, seconds=9),
    Row("dripping-scrapers", STRANGER, bounds=HEADS, seconds=15),
)
CROWDED: Final = Bounds(rate=0.3, pause_s=5.0, memory_mib=192)
"""The memory of requests is full, which is 128 MiB. Large requests wait until slow ones give way: 3 s and a sweep at
first (docs/invariants.md, I87), and later a sweep each time that the memory is full again. All others go on."""
PLAIN: Final = (
    Row("announced-frames", ANYBODY, FEW),
    Row("announced-large-frames", ANYBODY),
    Row("frames-of-many-networks", ANYBODY, 66, CROWDED, seconds=16),
    Row("tagged-fields-large", ANYBODY),
    Row("huge-arrays", ANYBODY),
    Row("unread-fetches", ANYBODY),
    Row("unread-metadata", ANYBODY),
    Row("unread-fetches-by-grpc", ANYBODY),
    Row("continuation-without-end", ANYBODY, bounds=BETWEEN_TWO_LOOKS),
    Row("messages-without-end", ANYBODY),
    Row("groups-that-grow", ANYBODY, spoils=True),
)
ROWS: Final = (*SECURED, *PLAIN)
