"""Stories in which one message comes so late that what it says is no longer so.

Three brokers, 1 to 3, have one partition; which of them leads follows from the seed. A broker that is cut off from the
leader leaves the ISR, and comes back when the link is mended: meanwhile no broker registers anew.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from tests.simulation.cluster.mutants.stories import directed, late
from tests.simulation.cluster.plan import Aim, Fault, Kind, Plan, WriterPlan

BROKERS = (3, 2, 1)


def for_each_broker(faults: Callable[[int], tuple[Fault, ...]], tellings: int = 1, **more: object) -> tuple[Plan, ...]:
    """The story told of each broker in turn."""
    return tuple(
        story
        for broker in BROKERS
        for story in directed(*faults(broker), tellings=tellings, **more)  # type: ignore[arg-type]
    )


def _back_in_the_isr(broker: int, *, is_answer: bool, seconds: float) -> tuple[Fault, ...]:
    """It is cut off from the leader for a second; what the leader proposes then is late, or the answer to it."""
    return (
        Fault(1.0, Kind.CUT, 1, broker, 1.0, 0.5, Aim.LEADER),
        Fault(1.95, Kind.LATE_MESSAGE, 1, 0, seconds, late("AlterPartition", is_answer=is_answer), Aim.LEADER),
    )


UNHEARD_ANSWER = for_each_broker(
    lambda broker: (
        *_back_in_the_isr(broker, is_answer=True, seconds=3.0),
        Fault(1.96, Kind.LATE_MESSAGE, 1, 0, 3.0, late("FetchMetadata", is_answer=True), Aim.LEADER),
        Fault(2.30, Kind.LATE_MESSAGE, 1, 0, 3.0, late("FetchMetadata", is_answer=True), Aim.LEADER),
        Fault(2.31, Kind.BREAK, 1, 0, 0.1, 0.5, Aim.LEADER),
    ),
)
"""A leader asks twice for the same ISR; it has heard neither the first answer nor the metadata."""
LATE_ANSWER = for_each_broker(
    lambda broker: (
        *_back_in_the_isr(broker, is_answer=True, seconds=2.5),
        Fault(2.3, Kind.KILL, broker, 0, 0.9, 0.5),
    ),
)
"""Before a leader hears that a broker has joined, the metadata says that it has left again."""
LATE_PROPOSAL_OF_A_RESTARTED_BROKER = for_each_broker(
    lambda broker: (
        *_back_in_the_isr(broker, is_answer=False, seconds=2.5),
        Fault(2.2, Kind.KILL, broker, 0, 0.01, 0.5),
    ),
)
LATE_PROPOSAL_OF_A_DEAD_BROKER = for_each_broker(
    lambda broker: (
        *_back_in_the_isr(broker, is_answer=False, seconds=2.5),
        Fault(2.2, Kind.KILL, broker, 0, 4.0, 0.5),
    ),
)
LATE_PROPOSAL_OF_THE_SECOND_REPLICA = directed(
    *_back_in_the_isr(2, is_answer=False, seconds=2.0),
    copies=2,
    min_isr=2,
    roles=((False, True), (True, False), (True, False)),
)
LATE_PROPOSAL_WITH_A_BROKER_THAT_HAS_LEFT = tuple(
    story
    for joins, leaves in permutations(BROKERS, 2)
    for story in directed(
        *_back_in_the_isr(joins, is_answer=False, seconds=3.0),
        Fault(2.1, Kind.CUT, 0, leaves, 1.2, 0.5),
        seconds=7.0,
        tellings=1,
    )
)
"""While a proposal is late, a member of it is fenced, and in service again under the same broker epoch."""
REFUSED_PROPOSAL_THAT_IS_LATE = tuple(
    story
    for joins in (1, 2)
    for story in directed(
        Fault(1.0, Kind.CUT, 1, 2, 1.0, 0.5, Aim.LEADER),
        Fault(1.95, Kind.LATE_MESSAGE, 1, 0, 11.2, late("AlterPartition"), Aim.LEADER),
        Fault(11.2, Kind.CUT, 1, 2, 4.0, 0.5),
        Fault(11.3, Kind.CUT, joins, 0, 1.2, 0.5),
        copies=2,
        roles=((False, True), (True, False), (True, False)),
        seconds=14.0,
        tellings=1,
    )
)
"""A leader gives a late proposal up after 10 s and sends it again. The replica that shall join is fenced then, so the
second one is refused. The first one comes when it is in service again, and lacks records."""
LATE_PROPOSAL_OF_A_DEPOSED_LEADER = for_each_broker(
    lambda broker: (
        *_back_in_the_isr(broker, is_answer=False, seconds=3.0),
        Fault(2.2, Kind.PAUSE, 1, 0, 1.2, 0.5, Aim.LEADER),
    ),
    seconds=7.0,
)
"""While its proposal is late, a leader is fenced, and in service again under the same broker epoch."""
FIRST_FETCH_IS_LATE = for_each_broker(
    lambda broker: (
        Fault(1.0, Kind.KILL, broker, 0, 0.05, 0.5),
        Fault(1.03, Kind.LATE_MESSAGE, broker, 0, 3.0, late("Fetch")),
    ),
    writers=(WriterPlan("topic-0", 0, 3.0, 1, is_keyed=False),),
)
"""A follower has everything, dies, and is in service again before it has fetched anything."""
LATE_FETCH = for_each_broker(
    lambda broker: (
        Fault(1.0, Kind.LATE_MESSAGE, broker, 0, 3.0, late("Fetch")),
        Fault(1.2, Kind.KILL, broker, 0, 0.01, 0.5),
    ),
)
"""A fetch of a process that is dead comes when the next one is registered."""
LATE_FAREWELL = for_each_broker(
    lambda broker: (
        Fault(1.0, Kind.LATE_MESSAGE, broker, 0, 3.0, late("BrokerHeartbeat")),
        Fault(1.0, Kind.STOP, broker, 0, 0.5, 0.5),
        Fault(1.3, Kind.KILL, broker, 0, 0.01, 0.5),
    ),
)
"""A process that wanted to stop has died over it; its wish comes when the next one serves."""
LATE_REGISTRATION = for_each_broker(
    lambda broker: (
        Fault(0.95, Kind.LATE_MESSAGE, broker, 0, 3.0, late("RegisterBroker")),
        Fault(1.0, Kind.KILL, broker, 0, 0.01, 0.5),
        Fault(1.5, Kind.KILL, broker, 0, 0.01, 0.5),
    ),
)
"""A process dies before its registration has come; it comes when the next one serves."""
UNHEARD_HIGH_WATERMARK = tuple(
    story
    for behind, ahead in permutations(BROKERS, 2)
    for story in directed(
        Fault(1.0, Kind.CUT, 1, behind, 5.0, 0.5, Aim.LEADER),
        Fault(1.45, Kind.LATE_MESSAGE, ahead, 0, 3.0, late("Fetch", is_answer=True)),
        Fault(1.8, Kind.KILL, 1, 0, 4.0, 0.5, Aim.LEADER),
        Fault(2.1, Kind.LATE_MESSAGE, behind, 0, 3.0, late("Fetch", is_answer=True)),
        min_isr=2,
        seconds=7.0,
        tellings=1,
    )
)
"""A leader loses a follower, commits with the other one alone, and dies before that one hears how far. When that one
leads, the lost one has not got what was committed for a while."""
