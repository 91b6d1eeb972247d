"""Mistakes in what one client may take of the memory that all share (I86 to I88)."""

from __future__ import annotations

from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.connection.incoming_frame import IncomingFrame
from broker.kafka.connection.served_connection import ServedConnection
from broker.network.budget_shares import BudgetShares
from broker.network.memory_budget import Lease, MemoryBudget
from broker.network.parties import party
from broker.network.request_memory import RequestIntake
from tests.simulation.cluster.drawn_floods import REQUEST_BYTES, flooded_config
from tests.simulation.cluster.flood_plan import FloodKind, FloodOrigin, FloodPlan
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import KafkaWriterPlan, Plan, SecurityPlan

HONEST = (KafkaWriterPlan("topic-0", 0.05, 1),)
LARGER = (KafkaWriterPlan("topic-0", 0.05, 60, in_flight=1),)
"""Its requests take more than a party with little may have for the asking."""


def flooded(
    kind: FloodKind,
    frame_bytes: int = 60_000,
    *,
    connections: int = 12,
    parties: int = 1,
    origin: FloodOrigin = FloodOrigin.ONE,
    stall_ms: int = 2_000,
    seconds: float = 8.0,
    request_bytes: int = REQUEST_BYTES[0],
    security: SecurityPlan | None = None,
    kafka_writers: tuple[KafkaWriterPlan, ...] = HONEST,
) -> tuple[Plan, ...]:
    """One node with little memory, a writer by each protocol, and so many flooders of a kind."""
    floods = (FloodPlan(kind, origin, connections, frame_bytes),) * parties
    story = directed(tellings=1, copies=1, roles=((True, True),), seconds=seconds)
    memory = flooded_config(request_bytes, stall_ms)
    return with_parts(story, memory, floods=floods, kafka_writers=kafka_writers, security=security)


SHARES = (
    Mutant(
        "what strangers send is counted in the memory of users",
        "2026: 270 connections that had not logged in stopped every reader",
        (
            Edit(
                ServedConnection.__init__,
                "service.client_requests if self._login is None else service.requests_before_log_in",
                "service.client_requests",
            ),
        ),
        is_replicated=None,
        stories=flooded(FloodKind.RUSH, security=SecurityPlan(1, 1.0, forges=False)),
    ),
    Mutant(
        "a frame takes the memory that it announces before a byte of it has come",
        "2026: the same connections sent four bytes each",
        (Edit(FrameConnection.receive, "size if here == size else next_bytes(size, here)", "size"),),
        is_replicated=None,
        stories=flooded(FloodKind.ANNOUNCE),
    ),
    Mutant(
        "a stream that waits for room stops all others",
        "2026: two frames of 100 MiB that came drop by drop kept all large requests out",
        (
            Edit(
                MemoryBudget.may_begin,
                "not (first and is_late and any(map(self._waits_for_others, self._turns)))",
                "not self._turns",
            ),
            Edit(
                MemoryBudget._grant_in_turn,
                "self._overtaken >= OVERTAKEN_MAX and self._waits_for_others(party)",
                "True",
            ),
        ),
        is_replicated=None,
        stories=flooded(FloodKind.PACE, stall_ms=30_000, seconds=15.0, kafka_writers=LARGER),
    ),
    Mutant(
        "a stream that waits for the share of its own party stops all others, once it was overtaken often",
        "2026: three networks that held small frames stopped everybody else",
        (Edit(MemoryBudget._has_little, "return is_little and", "return"),),
        is_replicated=None,
        stories=flooded(
            FloodKind.HOLD, 30_000, connections=6, parties=3, stall_ms=30_000, seconds=15.0, kafka_writers=LARGER
        ),
    ),
    Mutant(
        "a stream that takes nothing yet waits for another party that was overtaken often",
        "2026: while frames of many networks filled the memory, no gRPC stream was read for seconds",
        (
            Edit(MemoryBudget.may_begin, "not (first and is_late and", "not (is_late and"),
            Edit(
                MemoryBudget._let_one_in,
                "not (party.growing or party.waiting)[0].more and self._first_fits(party)",
                "False",
            ),
        ),
        is_replicated=None,
        stories=flooded(FloodKind.HOLD, origin=FloodOrigin.MANY, stall_ms=30_000, seconds=15.0),
    ),
    Mutant(
        "nobody is read while answers of others are above the budget",
        "2026: until the connections that read nothing were cut",
        (
            Edit(BudgetShares.fits, "free >= 0 or not more", "free >= 0"),
            Edit(RequestIntake.may_answer, "self._unread.has_room(0)", "True"),
        ),
        is_replicated=None,
        stories=flooded(
            FloodKind.DEAF,
            300_000,
            connections=16,
            parties=4,
            stall_ms=30_000,
            seconds=12.0,
            request_bytes=REQUEST_BYTES[1],
        ),
    ),
    Mutant(
        "each address is a party of its own",
        "2026: a /64 of IPv6 had as many shares as it liked",
        (
            Edit(MemoryBudget.open, "party_name = network_of(party_name)", "pass"),
            Edit(party, "network_of(host) if", "host if"),
        ),
        is_replicated=None,
        stories=flooded(FloodKind.RUSH, origin=FloodOrigin.ONE_64),
    ),
    Mutant(
        "a party may announce as much as there is",
        "2026: no share for a party",
        (Edit(BudgetShares.party_fits, "return ", "return True or "),),
        is_replicated=None,
        stories=flooded(FloodKind.ANNOUNCE),
    ),
    Mutant(
        "a party may have all in memory that is free",
        "2026: the same",
        (Edit(BudgetShares.fits, "return used <= free or", "return free >= 0 or"),),
        is_replicated=None,
        stories=flooded(
            FloodKind.HOLD,
            connections=5,
            parties=6,
            stall_ms=30_000,
            seconds=12.0,
            request_bytes=REQUEST_BYTES[1],
            kafka_writers=LARGER,
        ),
    ),
    Mutant(
        "a frame may take as long as it likes",
        "2026: memory was held for nothing",
        (Edit(IncomingFrame.crawls_since_ms, "self._since_ms if is_slow else None", "None"),),
        is_replicated=None,
        stories=flooded(FloodKind.DRIP),
    ),
    Mutant(
        "a frame above the limits may take as long as others",
        "2026: one frame of 100 MiB was in everybody's way for a minute",
        (
            Edit(IncomingFrame.is_in_the_way, "return ", "return False and "),
            Edit(IncomingFrame.is_old, "return ", "return False and "),
        ),
        is_replicated=None,
        stories=flooded(FloodKind.HOLD, 1_000_000, connections=3, parties=3, stall_ms=30_000, seconds=30.0),
    ),
    Mutant(
        "the place above the limits is not given back",
        "one line forgotten",
        (Edit(Lease.resize, "self.is_above, budget.top = False, None", "self.is_above = False"),),
        is_replicated=None,
        stories=flooded(FloodKind.RUSH, 1_000_000, connections=2),
    ),
    Mutant(
        "answers that nobody reads are not counted",
        "2026: 40 connections took 495 MiB",
        (
            Edit(
                RequestIntake.answered,
                "None if size <= SMALL_BYTES else self._unread.take(ANSWER_COPIES * size)",
                "None",
            ),
        ),
        is_replicated=None,
        stories=flooded(FloodKind.DEAF, 300_000),
    ),
)
