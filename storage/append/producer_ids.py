"""The producers that the logs of a node know, together: how many there may be, and when one is forgotten.

A producer is counted in each log that it writes to. It is forgotten after `producer.id.expiration.ms` without a batch,
by a regular job, and not before the node has watched it for that time. At a bound, the producer that was silent longest
makes room for a new one, if it was silent for longer than a client retries (`SILENT_MS`): so no batch of it can come
again. Otherwise the new one is refused, and may try again. The stamps that an earlier process left may be of another
calendar. So no producer makes room by one before this process has watched for `SILENT_MS`; what earlier processes have
watched of its silence counts, where a snapshot tells it (`nears_bound`). At the bound of the node several make room
together, because a look at every log is needed to find the longest silent one.

Batches from a leader are never refused: a follower above the bound of one log forgets the longest silent one, which its
leader has forgotten too. Above the bound of the node, a log that reads batches, and the regular job, forget those that
are surely silent: by the file's time, not by that of their records. A producer of old records writes now.

The count is changed on the loop and by the threads that open logs; everything else is used on the loop.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import Final, Protocol

from penstock.clock import Clock
from penstock.errors import ResourceExhaustedError
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter
from penstock.threads import Threads
from penstock.types import NO_TIMESTAMP
from storage.append.producer_state import KnownProducers
from storage.append.steady_calendar import SteadyCalendar
from storage.log_config import DAY_MS

SILENT_MS = 10 * 60_000
"""Longer than any client retries by default (delivery_timeout_ms)."""
ROOM_SHARE: Final = 100
"""The share of producers that make room at a time at the bound of the node: one in ROOM_SHARE."""
ROOM_MAX: Final = 1_000
"""The most producers that make room at a time; the loop waits for it: some milliseconds."""


@dataclass(frozen=True, slots=True)
class ProducerIdConfig:
    """The producer.id.* keys of a node."""

    expiration_ms: int = DAY_MS
    max_per_partition: int = 5_000
    max_per_node: int = 100_000


class KnowsProducers(Protocol):
    """One log's producers."""

    @property
    def silent_since_ms(self) -> int | None: ...

    def forget_oldest(self) -> None: ...


_REFUSED = ("penstock_producer_batches_refused", "Batches of idempotent producers that did not fit, by the error.")


@dataclass(slots=True)
class ProducerIdCounts:
    """Counts for all logs, since the start of the node."""

    duplicates: int = counter(
        "penstock_producer_duplicates",
        "Batches that were in the log already: answered with their first offsets, not written again.",
        default=0,
    )
    out_of_order: int = counter(*_REFUSED, why="out_of_order_sequence_number", default=0)
    fenced: int = counter(*_REFUSED, why="invalid_producer_epoch", default=0)
    unknown: int = counter(*_REFUSED, why="unknown_producer_id", default=0)
    refused_full: int = counter(
        "penstock_producers_refused",
        "New producers that were refused at producer.id.max.per.partition or producer.id.max.per.node.",
        default=0,
    )
    expired: int = counter(
        "penstock_producers_expired", "Producers that were forgotten after producer.id.expiration.ms.", default=0
    )
    evicted: int = counter(
        "penstock_producers_evicted",
        "Producers that were silent for 10 minutes and made room for new ones at a bound.",
        default=0,
    )
    snapshots_left_out: int = counter(
        "penstock_producer_snapshots_left_out",
        "Snapshots of producers that found no room or no descriptor; a start then reads more of the log.",
        default=0,
    )


class ProducerIds:
    """One for a node."""

    def __init__(self, config: ProducerIdConfig, clock: Clock, threads: Threads) -> None:
        self.config, self.clock = config, SteadyCalendar(clock)
        self.counts = ProducerIdCounts()
        self._adding = threads.lock()
        self._total = 0
        self._holders: dict[KnowsProducers, None] = {}
        self._nears_bound = False
        self._full_until_ms = 0
        """The time until which no producer of the node will have been silent for long enough."""

    def __len__(self) -> int:
        """Producers of all logs together."""
        return self._total

    def add(self, holder: KnowsProducers, count: int) -> None:
        """The log knows `count` producers more; negative: fewer."""
        with self._adding:
            self._holders[holder] = None
            self._total += count
            self._nears_bound = self._nears_bound or 2 * self._total >= self.config.max_per_node
        if count < 0:
            self._full_until_ms = 0

    def remove(self, holder: KnowsProducers, count: int) -> None:
        """The log is closed."""
        self.add(holder, -count)
        self._holders.pop(holder, None)

    @property
    def above_bound(self) -> int:
        """How many producers the node knows above its bound: batches that come from a leader, or from a log, are not
        refused."""
        return max(self._total - self.config.max_per_node, 0)

    def expiry_ms(self) -> int | None:
        """The time by which silence is counted. None until this process has watched for `producer.id.expiration.ms`:
        stamps left by an earlier process may be of a wrong calendar. A producer that was silent all that time is silent
        by any calendar."""
        return self.clock.wall_ms() if self.clock.watched_ms >= self.config.expiration_ms else None

    def nears_bound(self, known: int) -> bool:
        """True if a log of `known` producers has half of what it may, or if a log of the node ever had: then its
        snapshots tell how long each producer was silent. Other snapshots do not, and older releases read them."""
        return self._nears_bound or 2 * known >= self.config.max_per_partition

    def silent_since_ms(self, known: KnownProducers) -> int | None:
        """The time since which the log's longest silent producer is silent, by this process's calendar: what may be
        relied on now. None without one."""
        longest = known.longest_silent_entry
        if longest is None:
            return None
        silence_ms, now_ms = longest.silence_ms(self.clock.now_ms()), self.clock.wall_ms()
        is_guessed = longest.likely_append_ms != NO_TIMESTAMP
        if self._is_sure and (is_guessed or silence_ms >= SILENT_MS):
            return min(longest.silent_since_ms, now_ms - silence_ms)  # the order among those that may go
        return now_ms - silence_ms

    def is_silent(self, since_ms: int | None) -> bool:
        """True if a producer that last appended then may make room. False until this process has watched for
        `SILENT_MS`: the stamp may be an earlier one's, by a calendar that was behind this one."""
        return self._is_sure and _is_silent(since_ms, self.clock.wall_ms())

    @property
    def _is_sure(self) -> bool:
        return self.clock.watched_ms >= SILENT_MS

    def make_room(self, known: KnownProducers) -> None:
        """Makes room for one more producer of a log that knows these; ResourceExhaustedError if no producer can make
        room."""
        config = self.config
        if len(known) >= config.max_per_partition:
            if not _is_silent(self.silent_since_ms(known), self.clock.wall_ms()):
                raise self._exhausted(f"the partition knows {len(known)}", "producer.id.max.per.partition")
        elif self._total >= config.max_per_node:
            self._make_room_in_node()

    def _make_room_in_node(self) -> None:
        now_ms = self.clock.wall_ms()
        if not 0 < self._full_until_ms - now_ms <= SILENT_MS:
            evicted, next_ms = self._forget_longest_silent(now_ms)
            if evicted:
                self.counts.evicted += evicted
                return
            self._full_until_ms = (next_ms or now_ms) + SILENT_MS
        raise self._exhausted(f"this node knows {self._total}", "producer.id.max.per.node")

    def _forget_longest_silent(self, now_ms: int) -> tuple[int, int | None]:
        """How many, and since when the next one is silent. Right, even if the append of the new producer then fails: no
        batch of those that were forgotten comes again."""
        max_count = self.config.max_per_node
        wanted = min(self._total - max_count + max(max_count // ROOM_SHARE, 1), ROOM_MAX)
        times = ((holder.silent_since_ms, index, holder) for index, holder in enumerate(tuple(self._holders)))
        silent = [(since_ms, index, holder) for since_ms, index, holder in times if since_ms is not None]
        heapify(silent)
        evicted = 0
        while silent and evicted < wanted and _is_silent(silent[0][0], now_ms):
            _, index, holder = silent[0]
            holder.forget_oldest()
            evicted += 1
            since_ms = holder.silent_since_ms
            if since_ms is None:
                heappop(silent)
            else:
                heapreplace(silent, (since_ms, index, holder))
        return evicted, silent[0][0] if silent else None

    def _exhausted(self, found: str, key: str) -> ResourceExhaustedError:
        self.counts.refused_full += 1
        return ResourceExhaustedError(
            f"{found} producers that may have written within the last {SILENT_MS // 60_000} minutes, as many as {key}"
            " allows; raise it, or use fewer producers: one for each process, not one for each record"
        )

    def __repr__(self) -> str:
        return f"ProducerIds({self._total} in {len(self._holders)} logs)"


def _is_silent(since_ms: int | None, now_ms: int) -> bool:
    """True if a producer that last appended then may be forgotten."""
    return since_ms is not None and now_ms - since_ms >= SILENT_MS
