"""Runs one fetcher: a gRPC stream to one source broker, the core's decisions, and the local logs.

One turn: send what the core wants, wait for the answer, append everything in it, wait for ONE group commit over all
logs that were touched, tell the core. A partition is asked for again AFTER its flush, because a fetch at offset N tells
the leader that everything below N is on this disk.

What is done to a log, and what an error of it means, is in effect_runner.py.

A log dir that is slow or hangs holds up its own partitions only: a partition whose flush takes longer than
`slow_flush_ms` is left out of the next request, and joins a later one when its flush is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random

from broker.replication.follower.effect_runner import EffectRunner, Grown
from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_core import FetcherCore
from broker.replication.follower.fetcher_ports import FetcherNode, ReplicaFetchStream, Timed
from broker.replication.follower.fetcher_values import FetchState
from broker.replication.move_throttle import MovingCopies
from broker.replication.partition import Partition
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import ApiError, NetworkError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.tasks import watch
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

RECONNECT_MS = 50
RECONNECT_MS_MAX = 1_000
ANSWER_MS_MAX = 30_000
"""How much later than its longest wait a source may answer (Kafka's replica.socket.timeout.ms). Then the stream is
given up: a request that got lost there would otherwise stop the fetcher for good."""


class ReplicaFetcher:
    """Follows the partitions given to it from one source broker, until stopped."""

    def __init__(
        self,
        name: str,
        config: FetcherConfig,
        clock: Clock,
        random: Random,
        open_stream: Callable[[], ReplicaFetchStream],
        node: FetcherNode,
        on_fatal: Callable[[BaseException], None],
        timed: Timed = lambda work: work,
        copies: MovingCopies | None = None,
    ) -> None:
        """`on_fatal` is called with an error that must not be retried; `timed` counts the event loop's time that the
        fetcher takes; `copies` are throttled."""
        self.name = name
        self.core = FetcherCore(config.backoff_ms, config.partition_bytes_max, copies)
        self._config = config
        self._clock = clock
        self._open_stream = open_stream
        self._node = node
        self._stream: ReplicaFetchStream | None = None
        self._outstanding = 0
        self._reconnect = Backoff(RECONNECT_MS, RECONNECT_MS_MAX, random)
        self._failures = 0
        self._flush_done = asyncio.Event()
        self._flush_is_slow = False
        self._has_work = asyncio.Event()
        self._is_kick_due = False
        self._runner = EffectRunner(
            name=name, core=self.core, clock=clock, node=node, kick=self.kick, on_fatal=on_fatal
        )
        self._task = asyncio.create_task(timed(self._run()), name=f"fetcher-{name}")
        watch(self._task, on_fatal)

    @property
    def bytes_in(self) -> int:
        return self._runner.bytes_in

    @property
    def answers_refused(self) -> int:
        """Answers whose records this broker did not take, because they are not what a leader may send."""
        return self._runner.answers_refused

    def add(self, partition: Partition, leader_epoch: int) -> None:
        """Follow `partition` from its durable end in `leader_epoch`."""
        partition_log = partition.log
        self._runner.cut_no_more([partition.topic_partition])
        self.core.add(
            partition.topic_partition,
            FetchState(
                topic_id=partition_log.topic_id,
                leader_epoch=leader_epoch,
                fetch_offset=partition_log.log_end_offset,
                last_fetched_epoch=partition_log.latest_epoch,
                log_start_offset=partition_log.written_start.durable,
            ),
        )
        if partition_log.written_start.durable < partition_log.log_start_offset:
            self._runner.report_log_start(partition, leader_epoch)
        self._has_work.set()

    def remove(self, partitions: list[TopicPartition]) -> None:
        self.core.remove(partitions)
        self._runner.forget(partitions)
        asyncio.get_running_loop().call_soon(self._leave_if_idle)  # not at once: it may be added again, in a new epoch

    def _leave_if_idle(self) -> None:
        """Ends a stream without partitions: its source may hang, and would hold the fetcher up."""
        if self._stream is not None and not len(self.core):
            self._stream.cancel()

    def kick(self) -> None:
        """A partition was added: it must not wait for the long poll under way, nor for a slow flush."""
        if self._flush_is_slow:
            self._flush_done.set()
        if self._stream is not None and self._outstanding and self.core.has_changes(self._clock.now_ms()):
            self._ask(self._stream)

    def _held_no_more(self) -> None:
        self._is_kick_due = False
        self.kick()

    async def stop(self) -> None:
        self._runner.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            if not len(self.core):
                self._has_work.clear()
                continue
            try:
                await self._follow()
            except ApiError as error:
                if not len(self.core):
                    continue  # the stream was left, see _leave_if_idle
                _log.info("fetcher %s: %s; retrying", self.name, error)
                self._failures += 1
                await asyncio.sleep(self._reconnect.wait_ms(self._failures) / 1000)

    async def _follow(self) -> None:
        """One stream's life: until it breaks or nothing is left to follow."""
        stream = self._stream = self._open_stream()
        self._outstanding = 0
        self.core.session_lost()
        try:
            while len(self.core):
                if self._outstanding == 0:
                    self._ask(stream)
                turn, response = await self._answer(stream)
                self._failures = 0
                self._outstanding -= 1
                await self._apply(turn, response)
        finally:
            self._stream = None
            stream.cancel()

    async def _answer(self, stream: ReplicaFetchStream) -> tuple[int, FetchResponse]:
        timeout_ms = self._config.wait_ms_max + ANSWER_MS_MAX
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await stream.receive()
        except TimeoutError as error:
            raise NetworkError(f"no answer within {timeout_ms} ms") from error

    def _ask(self, stream: ReplicaFetchStream) -> None:
        now_ms = self._clock.now_ms()
        turn = self.core.next_turn(now_ms)
        self._outstanding += 1
        if self.core.held_ms and not self._is_kick_due:  # that time is up before this request's longest wait
            self._is_kick_due = True
            asyncio.get_running_loop().call_later(self.core.held_ms / 1000, self._held_no_more)
        stream.send(
            turn.number,
            FetchRequest(
                replica_id=self._config.broker_id,
                broker_epoch=self._node.broker_epoch,
                max_wait_ms=0 if self.core.has_changes(now_ms) else self._config.wait_ms_max,
                min_bytes=self._config.bytes_min,
                max_bytes=self._config.response_bytes_max,
                partitions=turn.partitions,
                forgotten=turn.forgotten,
                cluster_id=self._config.cluster_id,
                serves_consumers=self._config.serves_consumers,
            ),
        )

    async def _apply(self, turn: int, response: FetchResponse) -> None:
        now_ms = self._clock.now_ms()
        grown: Grown = []
        for result in response.partitions:
            for effect in self.core.on_result(result, turn, now_ms):
                self._runner.run(effect, now_ms, grown)
        await self._make_durable(grown)

    async def _make_durable(self, grown: Grown) -> None:
        """Have everything appended flushed; the core may acknowledge each partition by a fetch AFTER its flush."""
        flushing: set[TopicPartition] = set()
        for partition, leader_epoch, end_offset in grown:
            if partition.offline is not None:  # another partition found the disk broken: no flush would be reported
                continue
            if partition.log.flushed_offset >= end_offset:
                self._acknowledge(partition, leader_epoch, end_offset)
            else:
                flushing.add(partition.topic_partition)
                partition.acks_one.add(end_offset, self._when_flushed(partition, leader_epoch, end_offset, flushing))
                self._node.request_flush(partition)
        await self._until_flushed(flushing)

    def _when_flushed(
        self, partition: Partition, leader_epoch: int, end_offset: int, flushing: set[TopicPartition]
    ) -> Callable[[ApiError | None], None]:
        """The callback for the end of the flush, or for an error: the log failed, or the partition has another role."""

        def done(_error: ApiError | None) -> None:
            flushing.discard(partition.topic_partition)
            self._acknowledge(partition, leader_epoch, end_offset)
            if not flushing or self._flush_is_slow:  # the turn waits for the last, or for those before the timer
                self._flush_done.set()
            self.kick()

        return done

    def _acknowledge(self, partition: Partition, leader_epoch: int, end_offset: int) -> None:
        if partition.offline is None and partition.log.flushed_offset >= end_offset:
            self.core.appended(partition.topic_partition, leader_epoch, end_offset, partition.log.latest_epoch)

    async def _until_flushed(self, flushing: set[TopicPartition]) -> None:
        """Waits until all of them are flushed; slow ones are left behind as soon as there is something else to ask
        for."""
        if not flushing:
            return
        self._flush_is_slow = False
        timer = asyncio.get_running_loop().call_later(self._config.slow_flush_ms / 1000, self._flush_takes_long)
        try:
            while flushing and not (self._flush_is_slow and self.core.has_others_to_ask_for):
                self._flush_done.clear()
                await self._flush_done.wait()
        finally:
            timer.cancel()

    def _flush_takes_long(self) -> None:
        self._flush_is_slow = True
        self._flush_done.set()
