"""Fetches ahead for a consumer: the driver between positions, brokers and the buffer.

One link per broker at which something assigned is read: its leader, or a follower that the leader has named. A link
whose broker has nothing of it any more is ended at once, whatever it waits for. Positions decide what an answer means;
the effects are done here: bytes and errors go to the buffer, a changed leader is followed, a lost position is looked up
(look_ups.py). Works on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from penstock.client.cluster.arguments import checked_partitions
from penstock.client.cluster.by_leader import check_partitions
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_metrics import FETCH_COUNTS, FetchStatistics, recent_fetches
from penstock.client.consumer.fetching.effects import Deliver, Effect, FindLeader, ReadElsewhere, ReportError
from penstock.client.consumer.fetching.fetch_buffer import FetchBuffer, FetchRefusal
from penstock.client.consumer.fetching.fetch_link import FetchLink, Wanted
from penstock.client.consumer.fetching.fetch_session_view import SessionDelta
from penstock.client.consumer.fetching.look_ups import LookUps
from penstock.client.consumer.fetching.partition_state import PartitionState, consumer_waits
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.raw.raw_buffer import RawRange
from penstock.client.metrics.recent_totals import RecentTotals
from penstock.client.options.config import ConsumerConfig
from penstock.errors import ApiError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_LEADER, TopicPartition

_log = logging.getLogger(__name__)

LOGGED_AT_FAILURES = 10
"""A partition that fails this often in a row is logged once: after some 7 s, longer than a change of leader. Without
the line, a consumer would stop without a visible reason."""


class Fetcher:
    """Keeps the buffer full, and calls `on_ready` when there is something to take."""

    def __init__(
        self,
        cluster: ClusterClient,
        positions: Positions,
        buffer: FetchBuffer,
        config: ConsumerConfig,
        on_ready: Callable[[], object],
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._buffer = buffer
        self._config = config
        self.backoff = cluster.backoff
        self._on_ready = on_ready
        self.last_error: ApiError | None = None  # why nothing comes; None once something came
        self._links: dict[int, FetchLink] = {}
        self._closing: dict[asyncio.Task[None], None] = {}
        self._look_ups = LookUps(cluster, positions, self, read_committed=config.reads_committed)
        self._is_cut_off = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._counts = dict.fromkeys(FETCH_COUNTS, 0)
        self._recent = RecentTotals()
        self._asked_ms: dict[int, int] = {}  # by node: each has one fetch at a time

    # -- what the links ask (LinkOwner) --------------------------------------------------------------------------------

    def wanted(self, node_id: int) -> Wanted:
        if self._buffer.is_full:
            return {}
        now_ms = self._cluster.clock.now_ms()
        return self._positions.wanted(node_id, self._cluster.cache, self._config.max_partition_fetch_bytes, now_ms)

    def call(self, node_id: int, delta: SessionDelta) -> FetchRequest:
        self._asked_ms[node_id] = now_ms = self._cluster.clock.now_ms()
        self._recent.look(now_ms, self._counts)
        self._counts["requests"] += 1
        config = self._config
        return FetchRequest(
            CONSUMER_REPLICA_ID,
            NO_EPOCH,
            config.fetch_max_wait_ms if delta.is_last else 0,
            config.fetch_min_bytes,
            max(self._buffer.room_bytes, 1),
            delta.changed,
            delta.forgotten,
            read_committed=config.reads_committed,
            rack_id=self._rack(node_id),
        )

    def _rack(self, node_id: int) -> str:
        """The rack to name to the node; "" where its records are wanted of the leader itself."""
        rack = self._config.client_rack
        return "" if rack and self._positions.must_name_no_rack(node_id, self._cluster.clock.now_ms()) else rack

    def on_answer(self, node_id: int, answer: FetchResponse) -> None:
        now_ms = self._cluster.clock.now_ms()
        self._note_latency(now_ms - self._asked_ms.pop(node_id, now_ms))
        effects: list[Effect] = []
        try:
            for result in answer.partitions:
                effects += self._positions.on_result(result, now_ms, node_id)
        finally:  # a position that has moved on must find its records in the buffer, whatever the next result meets
            self._do(effects, node_id)
        errors = [(r.partition, r.error) for r in answer.partitions if r.error is not None]
        followed = [self._cluster.cache.apply_hint(tp, e.leader) for tp, e in errors if e.leader is not None]
        if not all(followed):  # a hint that tells nothing new, or speaks of a deleted topic
            self._cluster.refresh_soon()
        if errors:
            self.last_error = errors[-1][1]
            self._tell_of_long_failures(errors)
        if any(followed):
            self._counts["leader_changes"] += sum(followed)
            self._cluster.notify()
        elif any(r.error or r.diverging_epoch for r in answer.partitions) or any(
            not isinstance(e, Deliver) for e in effects
        ):
            self.touch()  # a partition may back off even without an effect, and a timer is to end that

    def _note_latency(self, latency_ms: int) -> None:
        counts = self._counts
        counts["answers"] += 1
        counts["latency_ms"] += latency_ms
        counts["latency_max_ms"] = max(counts["latency_max_ms"], latency_ms)

    def _tell_of_long_failures(self, errors: Iterable[tuple[TopicPartition, ApiError]]) -> None:
        for tp, error in errors:
            state = self._positions.states.get(tp)
            if state is not None and state.failures == LOGGED_AT_FAILURES:
                _log.warning("%s cannot be read: %s: %s; the consumer keeps trying", tp, error.kafka_name, error)

    def on_throttled(self, throttle_ms: int) -> None:
        self._counts["throttle_time_ms"] += throttle_ms
        self._counts["throttle_time_max_ms"] = max(self._counts["throttle_time_max_ms"], throttle_ms)

    def on_broken(self, node_id: int, error: ApiError) -> None:
        self._counts["broken_streams"] += 1
        self.last_error = error
        _log.debug("fetching from node %d: %s", node_id, error)
        self._cluster.refresh_soon()
        self._leave_follower(node_id)

    def _leave_follower(self, node_id: int) -> None:
        effects = self._positions.leave_follower(node_id, self._cluster.clock.now_ms())
        self._do(effects)
        if effects:
            self.touch()

    def on_refused(self, node_id: int, refusal: FetchRefusal) -> None:
        if node_id not in self._sources():
            return  # what was read there is read at its leader by now
        self._buffer.put(refusal)
        self._on_ready()

    def on_silent(self, node_id: int) -> None:
        self._counts["silences"] += 1
        _log.debug("node %d is silent: asking others who leads", node_id)
        endpoint = self._cluster.cache.endpoint(node_id)
        self._cluster.refresh_soon(avoid=(endpoint,) if endpoint is not None else ())
        self._leave_follower(node_id)

    def _do(self, effects: Iterable[Effect], node_id: int = NO_LEADER) -> None:
        """`node_id` is the node that has sent what is delivered."""
        is_ready = False
        for effect in effects:
            if isinstance(effect, Deliver):
                self._counts["bytes_fetched"] += len(effect.records)
                leader = self._cluster.cache.leader(effect.topic_partition)
                if leader is not None and leader.node_id != node_id:
                    self._counts["bytes_from_followers"] += len(effect.records)
                self.last_error = None
                self._buffer.put(effect)
                is_ready = True
            elif isinstance(effect, ReportError):
                self._buffer.put(effect)
                is_ready = True
            elif isinstance(effect, FindLeader):
                if not effect.hinted:
                    self._cluster.refresh_soon()
            elif isinstance(effect, ReadElsewhere):
                self._counts["moves_to_followers" if effect.is_at_follower else "returns_to_leaders"] += 1
            else:
                self._counts["resets"] += 1
                _log.warning("%s; auto_offset_reset=%s", effect.why, self._config.auto_offset_reset)
        if is_ready:  # only when the next request is out, so that the broker works while the user decodes
            asyncio.get_running_loop().call_soon(self._on_ready)

    # -- what the consumer asks, on the loop ---------------------------------------------------------------------------

    async def assign(self, partitions: Iterable[TopicPartition], place: Callable[[], object] = bool) -> None:
        """Checks that each exists, then fetches exactly these, from where `place` says BEFORE anything is asked for."""
        wanted = await self._check(partitions)
        self._positions.assign(wanted, self._cluster.cache)
        place()
        self.touch()
        await self.wait_placed()

    async def wait_placed(self) -> None:
        """Waits, for a bounded time, until each partition that begins at the end of its log knows that end."""
        await self._look_ups.wait_placed(self._config.request_timeout_ms)

    def maybe_begin_anew(self) -> None:
        """Begins what the program has cancelled among all tasks of its loop."""
        if self._is_cut_off:
            self._is_cut_off = False
            self.touch()

    async def assign_range(self, span: RawRange) -> None:
        """Fetches a bounded range of one partition alone, of the topic with this id ("": of the one that has the
        name)."""
        checked = await self._check([span.topic_partition])
        if span.topic_id:
            await self._cluster.meet_topic(span.topic_partition.topic, span.topic_id)
        self._positions.assign(checked)
        self._positions.seek_range(span)
        self.touch()

    async def _check(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        wanted = checked_partitions(partitions)
        self._cluster.subscribe(self.touch)
        await check_partitions(self._cluster, wanted, self._config.request_timeout_ms)
        self._cluster.track({tp.topic for tp in wanted})
        return wanted

    def touch(self) -> None:
        """Something changed: links are made, told and ended, look-ups begin, a timer is set for the next back-off."""
        if self._closed:
            return
        self._do(self._positions.on_metadata(self._cluster.cache, self._cluster.clock.now_ms()))
        self._end_links()
        for tp in self._positions.states:
            self._ensure_link(tp)
        for link in self._links.values():
            link.touch()
        self._look_ups.begin()
        self._set_timer()

    def _sources(self) -> set[int]:
        """The nodes at which something is read."""
        now_ms, cache = self._cluster.clock.now_ms(), self._cluster.cache
        sources = (self._positions.source(tp, cache, now_ms) for tp in self._positions.states)
        return {source.node_id for source in sources if source is not None}

    @property
    def neglected(self) -> frozenset[int]:
        """The brokers of which something is wanted, and that nobody asks until the next `touch`: it must come soon. One
        whose address is not known cannot be asked."""
        known = [node for node in self._sources() if self._cluster.cache.endpoint(node) is not None]
        links = {node: self._links.get(node) for node in known}
        return frozenset(node for node, link in links.items() if (link is None or link.waits) and self.wanted(node))

    def _end_links(self) -> None:
        nodes = self._sources()
        for node_id in [node_id for node_id in self._links if node_id not in nodes]:
            self._end_link(self._links.pop(node_id))

    def _end_link(self, link: FetchLink) -> None:
        closing = asyncio.ensure_future(link.close())
        self._closing[closing] = None
        closing.add_done_callback(self._closing.pop)

    def _ensure_link(self, tp: TopicPartition) -> None:
        source = self._positions.source(tp, self._cluster.cache, self._cluster.clock.now_ms())
        if source is None:
            self._on_leaderless(self._positions.states[tp])
            return
        connection = self._cluster.connection(source.node_id)
        link = self._links.get(source.node_id)
        if connection is None or (link is not None and link.connection is connection):
            return
        if link is not None:
            self._end_link(link)
        time_out_ms = self._config.fetch_max_wait_ms + self._config.request_timeout_ms
        self._links[source.node_id] = FetchLink(source.node_id, connection, self, time_out_ms)

    def _on_leaderless(self, state: PartitionState) -> None:
        now_ms = self._cluster.clock.now_ms()
        if state.is_stopped or state.is_at_end or state.not_before_ms > now_ms:
            return
        if self._cluster.cache.partition(state.topic_partition) is None:
            self.last_error = UnknownTopicOrPartitionError()
            self._do(self._positions.unknown(state, now_ms))
        else:
            self.last_error = LeaderNotAvailableError()
            self._positions.back_off(state, self.last_error, now_ms)
        self._cluster.refresh_soon()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._cluster.clock.now_ms()
        due_ms = self._positions.next_due_ms(now_ms)
        if due_ms is not None:
            self._timer = asyncio.get_running_loop().call_later(max(due_ms - now_ms, 1) / 1000, self.touch)

    def on_looked_up(self) -> None:
        self.touch()
        self._on_ready()

    def on_not_looked_up(self, error: ApiError, effects: Iterable[Effect]) -> None:
        self.last_error = error
        self._do(effects)

    def on_cancelled(self, link: FetchLink) -> None:
        if not self._closed and self._links.get(link.node_id) is link:
            del self._links[link.node_id]
            self.on_cut_off()

    def on_cut_off(self) -> None:
        """The program has cancelled the tasks; the next poll begins them anew. They are not begun now: the program may
        be ending, and would destroy them with its loop."""
        if not self._is_cut_off:
            _log.warning("the program has cancelled the tasks of a consumer; the next poll begins them anew")
        self._is_cut_off = True
        self._on_ready()

    def waiting_for(self) -> tuple[Waiting, ...]:
        """The reasons why assigned partitions are not read."""
        troubles = {node_id: link.trouble for node_id, link in self._links.items() if link.trouble}
        return consumer_waits(self._positions.states.values(), self._cluster.cache, troubles)

    async def close(self) -> None:
        """Ends every link. Idempotent."""
        self._closed = True
        self._cluster.unsubscribe(self.touch)
        if self._timer is not None:
            self._timer.cancel()
        await self._look_ups.close()
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*self._closing, *(link.close() for link in links))

    def statistics(self) -> FetchStatistics:
        growth = self._recent.growth(self._cluster.clock.now_ms(), self._counts)
        return FetchStatistics(**self._counts, recent=recent_fetches(growth))

    def __repr__(self) -> str:
        return f"Fetcher({self._positions!r}, {self._buffer!r}, brokers={sorted(self._links)})"
