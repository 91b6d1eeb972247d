"""Carries out the effects of a fetcher's core on the logs of one node, and says what an error means for the partition.

An error of the disk takes the partition offline, or it is not fetched any more in this leader epoch; after a shortage,
or bad records of the leader, it is asked for again. Only a violated invariant is raised. A truncation waits until its
disk has answered. Not here: what is decided (fetcher_core.py), how a log is changed as its leader says
(follower_log.py), the flush that a turn waits for (fetcher_driver.py).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable

from broker.replication.follower.fetcher_core import FetcherCore
from broker.replication.follower.fetcher_ports import FetcherNode
from broker.replication.follower.fetcher_values import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    Effect,
    SayRefused,
    SayStopped,
    StartOver,
    Truncate,
)
from broker.replication.follower.follower_log import advance_log_start, append_as_follower, start_over_at, truncate_to
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.epochs import truncation_offset
from penstock.errors import ApiError, CorruptMessageError, InvariantViolation, PenstockError
from penstock.throttled_lines import ThrottledLines
from penstock.types import EpochEndOffset, TopicPartition
from storage.disk.disk_errors import is_shortage
from storage.log.producers.producer_cut import PreparedCut

_log = logging.getLogger(__name__)

Grown = list[tuple[Partition, int, int]]
"""Partitions that were appended to: each with the leader epoch in which it is followed, and its log end."""


class EffectRunner:
    """The hands of one fetcher."""

    def __init__(
        self,
        name: str,
        core: FetcherCore,
        clock: Clock,
        node: FetcherNode,
        kick: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`name` is the fetcher's; `kick` has it ask for what has changed."""
        self._name, self._core, self._clock, self._node = name, core, clock, node
        self._kick, self._on_fatal = kick, on_fatal
        self._refusals = ThrottledLines(clock.now_ms)
        self._cuts: dict[TopicPartition, Truncate | StartOver] = {}
        """Truncations that wait for their disk to answer."""
        self.bytes_in = 0
        self.answers_refused = 0

    def __repr__(self) -> str:
        return f"EffectRunner({self._name}, {len(self._cuts)} cuts wait)"

    def run(self, effect: Effect, now_ms: int, grown: Grown) -> None:
        """Carry it out, or say it. What was appended is added to `grown`: the core hears of it AFTER the flush."""
        if isinstance(effect, SayStopped):
            _log.info("fetcher %s: %s: not fetched in this epoch: %s", self._name, effect.partition, effect.why)
        elif isinstance(effect, SayRefused):
            refusal = f"{effect.error.kafka_name}: {effect.error}"
            _log.warning(
                "fetcher %s: %s: its leader keeps refusing the fetch: %s", self._name, effect.partition, refusal
            )
        else:
            self._do(effect, now_ms, grown)

    def cut_no_more(self, partitions: Iterable[TopicPartition]) -> None:
        """Truncations of these that wait for their disk are not wanted any more."""
        for key in partitions:
            self._cuts.pop(key, None)

    def forget(self, partitions: list[TopicPartition]) -> None:
        """Forgets partitions that are not followed any more."""
        self._refusals.forget(partitions)
        self.cut_no_more(partitions)

    def close(self) -> None:
        self._cuts.clear()

    def _do(self, effect: Effect, now_ms: int, grown: Grown) -> None:
        leader_epoch = self._core.leader_epoch(effect.partition)
        partition = self._node.find(effect.partition)
        if partition is None or partition.leading is not None:
            self._core.remove([effect.partition])
        elif isinstance(effect, Truncate | StartOver):
            self._cut_later(effect, partition, leader_epoch)
        else:
            work = functools.partial(self._perform, effect, partition, leader_epoch, grown)
            self._try(work, partition, leader_epoch, now_ms)

    def _cut_later(self, effect: Truncate | StartOver, partition: Partition, leader_epoch: int) -> None:
        """A truncation waits for its disk on the event loop, so it is done only when the disk has just answered: one
        that hangs would stop the partitions of every other log dir. Until then nothing is fetched for the partition."""
        key = effect.partition
        self._cuts[key] = effect

        def is_wanted() -> bool:
            return self._cuts.get(key) is effect

        prepared = prepare(effect, partition, lambda offset: self._node.expect_cut(partition, offset, is_wanted))
        work = functools.partial(prepared.run, is_wanted) if prepared else None

        def cut(error: BaseException | None) -> None:
            if error is not None:
                raise error
            self._perform(effect, partition, leader_epoch, [])

        def answered(error: BaseException | None) -> None:
            if prepared is not None:
                prepared.close()
            if not is_wanted():
                return  # it is not followed any more, or from another position
            del self._cuts[key]
            if self._node.find(key) is not partition or partition.leading is not None:
                self._core.remove([key])
                return
            try:
                self._try(functools.partial(cut, error), partition, leader_epoch, self._clock.now_ms())
            except Exception as fatal:
                self._on_fatal(fatal)
            self._kick()

        self._node.when_disk_answers(partition, answered, work)

    def _try(self, work: Callable[[], None], partition: Partition, leader_epoch: int, now_ms: int) -> None:
        """Do it, and decide what its error means for the partition; only a violated invariant is raised."""
        try:
            work()
        except InvariantViolation:
            raise
        except CorruptMessageError as error:
            self._refuse(partition.topic_partition, error)
            # Spoilt on the way, it is good the next time; spoilt at its source, the leader looks again when it is asked
            # again (FetchSession), goes offline, and another leads.
            self._ask_again(partition, leader_epoch, now_ms)
        except (PenstockError, OSError) as error:
            partition.reports.disk_error(partition, error)
            if is_shortage(error) and partition.offline is None:
                self._ask_again(partition, leader_epoch, now_ms)
            else:
                self._stop_following(partition, error)

    def _refuse(self, key: TopicPartition, error: CorruptMessageError) -> None:
        """Counts and logs bad records of the leader. The same records come again after every back-off until the leader
        has others."""
        self.answers_refused += 1
        more = self._refusals.due(key)
        if more is not None:
            _log.error("fetcher %s: %s: bad records from the leader%s: %s", self._name, key, more, error)

    def _stop_following(self, partition: Partition, error: Exception) -> None:
        """Ends the following of a partition in this leader epoch. A partition that went offline with the error has its
        line in the log from `disk_error`."""
        key = partition.topic_partition
        if partition.offline is None:
            _log.error("fetcher %s: %s: not fetched any more in this epoch: %s", self._name, key, error)
        self._core.failed(key, str(error))

    def _perform(self, effect: Effect, partition: Partition, leader_epoch: int, grown: Grown) -> None:
        rebased = perform(effect, partition)
        if rebased:
            self._core.log_start_lowered(effect.partition, leader_epoch, partition.log.written_start.durable)
            self.report_log_start(partition, leader_epoch)
        if isinstance(effect, Append):
            self.bytes_in += len(effect.records)
            grown.append((partition, leader_epoch, partition.log.log_end_offset))
        elif isinstance(effect, Truncate | StartOver):
            self._truncated(partition, leader_epoch)
        elif isinstance(effect, AdvanceLogStart):
            self.report_log_start(partition, leader_epoch)

    def _ask_again(self, partition: Partition, leader_epoch: int, now_ms: int) -> None:
        """Asks again after the back-off, from where the log is now: it may have begun anew before the append failed."""
        if partition.log.log_end_offset < self._core.fetch_offset(partition.topic_partition):
            self._truncated(partition, leader_epoch)
        self._core.delayed(partition.topic_partition, now_ms)

    def report_log_start(self, partition: Partition, leader_epoch: int) -> None:
        """Tell the leader where this log starts AFTER that is durable; nothing waits for it."""
        key, start = partition.topic_partition, partition.log.log_start_offset

        def written(error: ApiError | None) -> None:
            if self._node.find(key) is not partition:
                return  # another topic has the name by now, and may be followed in the same epoch
            if error is None:
                self._core.log_start_durable(key, leader_epoch, min(start, partition.log.written_start.durable))
                self._kick()
            else:
                _log.warning("fetcher %s: %s: %s", self._name, key, error)
                self._core.log_start_failed(key, leader_epoch, self._clock.now_ms())

        self._node.make_log_start_durable(partition, written)

    def _truncated(self, partition: Partition, leader_epoch: int) -> None:
        partition_log = partition.log
        self._core.truncated(
            partition.topic_partition,
            leader_epoch,
            partition_log.log_end_offset,
            partition_log.latest_epoch,
            partition_log.log_start_offset,
        )


def perform(effect: Effect, partition: Partition) -> bool:
    """Do to a follower's log what the core decided; nothing is durable yet, but for a truncation. True when the log had
    to begin anew (`append_as_follower`)."""
    rebased = False
    match effect:
        case Append(records=records, leader_high_watermark=high_watermark, leader_log_start_offset=start):
            rebased = append_as_follower(partition, records, start, high_watermark)
            partition.follower_high_watermark(high_watermark)
        case Truncate(answer=answer, leader_log_start_offset=start):
            offset = cut_offset(answer, partition)
            _log.info("%s: truncating to %d by the leader's epoch %s", partition, offset, answer)
            if offset <= start:  # the leader has forgotten the epochs below: what is left here may be another history
                start_over_at(partition, start)
            else:
                truncate_to(partition, offset)  # below its own start, the log starts over there
        case StartOver(log_start_offset=start):
            _log.warning("%s: beginning with an empty log at the leader's log start %d", partition, start)
            start_over_at(partition, start)
        case AdvanceHighWatermark(leader_high_watermark=high_watermark):
            partition.follower_high_watermark(high_watermark)
        case AdvanceLogStart(leader_log_start_offset=start):
            advance_log_start(partition, start)
    return rebased


def prepare(
    effect: Truncate | StartOver, partition: Partition, expect_cut: Callable[[int], None]
) -> PreparedCut | None:
    """The work for a thread before the truncation is performed; None: nothing. `expect_cut` is told the offset of a cut
    that leaves records."""
    if isinstance(effect, StartOver):
        return None
    offset = cut_offset(effect.answer, partition)
    if offset <= effect.leader_log_start_offset:
        return None
    expect_cut(offset)
    return partition.log.producers.prepare_cut(offset)


def cut_offset(answer: EpochEndOffset, partition: Partition) -> int:
    """Where the log is cut by the leader's answer."""
    return truncation_offset(partition.log.epoch_entries, partition.log.log_end_offset, answer)
