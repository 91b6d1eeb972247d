"""Holds requests for partitions that have not arrived at this broker yet, for a second at most each. Driver.

    connection ── names partitions ──► all settled? ──► goes on at once
                                       some are not ──► waits for metadata and logs (arrival.py) ──► goes on

Only the connection of the request waits; its later requests come after it, in order. Rights come first: a topic that
the caller may not use is never waited for, nor an id by a caller that may use no topic, nor anything by one that lacks
the right to the group or the transaction of its request. The requests that wait are
limited, for a party and for the broker; others go on at once, to the answer that they would have got without the wait.
Nobody waits when the node stops. Not here: the end of a wait (arrival.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import islice

from broker.apis.arrivals.arrival import (
    STATUSES,
    AwaitedPartitions,
    CommittedEnds,
    StatusOf,
    WaitStep,
    unsettled_of,
)
from broker.network.listeners import Permissions
from broker.network.named_partitions import Named, NamedPartition
from broker.network.parties import party_of
from broker.network.request_channel import Caller
from broker.replication.hosting.hosted_partitions import HostedPartitions
from metadata.image import MetadataImage
from penstock.clock import Clock
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import ResourceType
from penstock.metric_fields import counter, measured

WAIT_MS_MAX = 1_000
"""Metadata arrives in some milliseconds, and a log is made in some more. Clients wait longer for an answer."""
WAITING_OF_PARTY = 100
LOOKED_AT_MAX = 1_000
"""The partitions of one request that are looked at, in one turn of the event loop. The others get the answer
that they would have got without a wait."""
SLOW_MS = 5_000
"""The time in which a party does not wait after a wait of WAIT_MS_MAX in vain. While thousands of logs are made,
requests for some of them would hold up the other partitions of their clients again and again. Waits at coordinators are
apart."""


@dataclass(frozen=True, slots=True)
class ArrivalLimits:
    """The bounds of all parties together."""

    waiting: int = 1_000
    """Requests that wait at a time; each holds its bytes."""
    slow_parties: int = 1_000
    """The most parties that may be in the time SLOW_MS. With as many no request waits."""


_REFUSED = (
    "penstock_arrival_waits_refused",
    "Requests for a partition which this broker did not have yet that were answered without a wait: too many wait or"
    " ask the active controller (many), or the party has waited or a read has failed in the last 5 s (slow).",
)


@measured
class ArrivalStatistics:
    """The counts of waits since the start of the node."""

    waited: int = counter(
        "penstock_arrival_waits",
        "Requests that waited for a partition which this broker did not have yet: for its metadata, or its log.",
    )
    in_vain: int = counter(
        "penstock_arrival_waits_in_vain",
        "Requests that waited for a partition which had not arrived when their time was over.",
    )
    many: int = counter(*_REFUSED, why="many")
    slow: int = counter(*_REFUSED, why="slow")


ReadEnd = Callable[[int], Awaitable[int]]
"""Reads the committed end of the metadata from the quorum's leader, within the given ms; ApiError without an answer."""


class ArrivalWaits:
    """`Arrivals` (network/named_partitions.py) of one broker, on the event loop."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        hosted: HostedPartitions,
        known_end_offset: Callable[[], int],
        read_end: ReadEnd,
        clock: Clock,
        permissions: Permissions | None,
        limits: ArrivalLimits = ArrivalLimits(),
    ) -> None:
        """`known_end_offset` is that of the committed metadata as far as this node knows. `news` must be called
        whenever the image, or a replica, has changed."""
        self._image, self._hosted, self._known_end_offset = image, hosted, known_end_offset
        self._read_end, self._clock, self._permissions = read_end, clock, permissions
        self._limits, self._ends = limits, CommittedEnds()
        self._waiting: Counter[str] = Counter()
        self._total = 0
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False
        self._waited = self._in_vain = self._many = self._slow = 0
        self._slow_until_ms: dict[tuple[str, bool], int] = {}
        """The end of each party's time without waits, by party and kind of wait, the earliest first. Leaders that open
        logs do not hold up coordinators."""

    def begin(self, caller: Caller, named: Named, /) -> Awaitable[None] | None:
        wait_ms = WAIT_MS_MAX if named.timeout_ms is None else min(named.timeout_ms, WAIT_MS_MAX)
        looked_at = named._replace(partitions=islice(named.partitions, LOOKED_AT_MAX))
        unsettled = unsettled_of(looked_at, self._image(), self._hosted)
        if not unsettled or wait_ms <= 0 or self._is_closed:
            return None
        arrival, party = AwaitedPartitions(self._allowed(caller, named, unsettled)), party_of(caller)
        if self._step(arrival, STATUSES[named.needs_log]) is WaitStep.DONE:
            return None
        if self._is_slow(party, needs_log=named.needs_log):
            self._slow += 1
            return None
        if self._total >= self._limits.waiting or self._waiting[party] >= WAITING_OF_PARTY:
            self._many += 1
            return None
        return self._wait(arrival, party, wait_ms, needs_log=named.needs_log)

    def news(self) -> None:
        """The image has changed, or a replica: those who wait look again, after all of it is done."""
        if self._total:
            self._news.set()
            self._news = asyncio.Event()

    def _is_slow(self, party: str, *, needs_log: bool) -> bool:
        slow = self._slow_until_ms
        while slow and slow[first := next(iter(slow))] <= self._clock.now_ms():
            del slow[first]
        return (party, needs_log) in slow or len(slow) >= self._limits.slow_parties

    def _allowed(self, caller: Caller, named: Named, unsettled: list[NamedPartition]) -> list[NamedPartition]:
        """The partitions for which the caller may wait."""
        permissions, operation = self._permissions, named.operation
        if permissions is None:
            return unsettled
        if not all(permissions.may(caller, *need) for need in named.needs):
            return []
        may: dict[str, bool] = {}
        for topic in {one.topic for one in unsettled}:
            if topic:
                may[topic] = permissions.may(caller, operation, ResourceType.TOPIC, topic)
            else:
                may[topic] = permissions.may_any(caller, operation, ResourceType.TOPIC)
        return [one for one in unsettled if may[one.topic]]

    def _step(self, arrival: AwaitedPartitions, status_of_one: StatusOf) -> WaitStep:
        image, hosted = self._image(), self._hosted
        return arrival.step(lambda one: status_of_one(one, image, hosted), image.offset + 1, self._known_end_offset())

    async def _wait(self, arrival: AwaitedPartitions, party: str, wait_ms: int, *, needs_log: bool) -> None:
        status_of_one, has_waited = STATUSES[needs_log], False
        self._waiting[party] += 1
        self._total += 1
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                while not self._is_closed and (step := self._step(arrival, status_of_one)) is not WaitStep.DONE:
                    number = self._asked(party) if step is WaitStep.READ else None
                    if step is WaitStep.READ and number is None:
                        arrival.read(None)
                        continue
                    has_waited = True
                    if number is not None:
                        arrival.read(await self._committed_end(number))
                    else:
                        await self._news.wait()
        except TimeoutError:
            self._in_vain += 1
            if wait_ms >= WAIT_MS_MAX:  # the answer says what is missing
                self._slow_until_ms.pop((party, needs_log), None)
                self._slow_until_ms[party, needs_log] = self._clock.now_ms() + SLOW_MS
        finally:
            self._waited += has_waited
            self._total -= 1
            self._waiting[party] -= 1
            if not self._waiting[party]:
                del self._waiting[party]

    def _asked(self, party: str) -> int | None:
        """The number of the read that the party waits for; None if the committed end cannot be known now."""
        now_ms = self._clock.now_ms()
        number = self._ends.ask(party, now_ms)
        if number is not None:
            self._begin_read()
        elif self._ends.has_failed(now_ms):
            self._slow += 1
        else:
            self._many += 1
        return number

    async def _committed_end(self, number: int) -> int | None:
        """None if that read failed."""
        while not self._ends.has(number) and not self._is_closed:
            await self._news.wait()
        return self._ends.end_offset

    def _begin_read(self) -> None:
        if not self._is_closed and self._ends.begin():
            self._reading = asyncio.create_task(self._read(), name="committed-end")

    async def _read(self) -> None:
        end_offset = None
        try:
            end_offset = await self._read_end(WAIT_MS_MAX)
        except ApiError:
            pass  # those who wait go on with what is known here
        finally:
            self._ends.ended(end_offset, self._clock.now_ms())
            self.news()
        self._begin_read()

    def statistics(self) -> ArrivalStatistics:
        return ArrivalStatistics(self._waited, self._in_vain, self._many, self._slow)

    async def close(self) -> None:
        """Nobody waits from now on."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self.news()

    def __repr__(self) -> str:
        return f"ArrivalWaits({self._total} of {len(self._waiting)} parties wait, {self._ends!r})"
