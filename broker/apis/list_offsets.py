"""ListOffsets: the earliest and latest readable offset, the largest timestamp, or the first record at or after a time.

'Latest' is the end of what a consumer can read: the high watermark, or with `read_committed` the last stable offset. No
record at or behind it is found. A leader that has committed no record of its own epoch yet does not know the high
watermark for sure, and answers OFFSET_NOT_AVAILABLE (KIP-207).

A look-up by time that needs the disk, or has much to decode, runs in an I/O thread; those of one request run one after
another in each log dir, and the log dirs side by side. A party has LOOK_UPS_OF_PARTY of a log dir at work, so that its
look-ups do not take all threads. A thread that decodes holds up the event loop, which shares Python's lock with it: so
after a long look-up, which false headers cause, its party rests before the next. A batch that a look-up cannot decode
is told of in the node's log, once for a partition in SAY_INTERVAL_MS, because its producer chose its bytes.

When two thirds of the request's time-out have passed, it is answered with what was found: a partition that needs the
disk then is REQUEST_TIMED_OUT, so a disk that hangs keeps no other partition's offset from the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.records import list_offsets_rule
from broker.load.party_turns import PartyTurns
from broker.network.failed_requests import FailRequest
from broker.network.io_threads import IoPort, IoWork
from broker.network.parties import party_of
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.unknown_high_watermark import unknown_high_watermark
from broker.replication.partition import Partition
from penstock.base_error import without_frames
from penstock.errors import (
    ApiError,
    CorruptFileError,
    InvalidRequestError,
    KafkaStorageError,
    RequestTimedOutError,
    ResourceExhaustedError,
)
from penstock.messages.client_apis import LIST_OFFSETS
from penstock.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsResult
from penstock.throttled_lines import CLIENTS_SUBJECTS_MAX, ThrottledLines
from penstock.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TimestampAndOffset,
    TopicPartition,
)
from storage.log.log_reader import ColdLookUp
from storage.segment.timestamp_lookup import TimeLookUp

_log = logging.getLogger(__name__)

TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX = 3_000, 60_000
"""The time-out of a request that gives none, and the longest that counts."""
LOOK_UPS_OF_PARTY = 1
"""Look-ups of one party that threads of a log dir make at a time, each of at most some hundred ms of decoding."""
LONG_LOOK_UP_US: Final = 50_000
"""A party rests for REST times what its look-up took above this: it keeps a thread busy for a quarter of the time."""
REST: Final = 3
BOUNDS = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
"""Known without a look into the log."""


class _Answering:
    """A request, and its results so far, in the order of the partitions asked for; None is not found yet."""

    __slots__ = (
        "at_work",
        "disk_wait_ms",
        "is_late",
        "left",
        "put_off",
        "read_committed",
        "request",
        "results",
        "timer",
        "wanted",
    )

    def __init__(self, request: Request, body: ListOffsetsRequest) -> None:
        self.request, self.wanted, self.read_committed = request, body.partitions, body.read_committed
        wanted, timeout_ms = body.partitions, body.timeout_ms
        self.disk_wait_ms = min(timeout_ms if timeout_ms > 0 else TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX) * 2 // 3
        self.results: list[ListOffsetsResult | None] = [None] * len(wanted)
        self.left = len(wanted)
        self.at_work: set[str] = set()
        """The log dirs with a thread that looks up for this request."""
        self.put_off: defaultdict[str, deque[int]] = defaultdict(deque)
        """The places in `wanted` that wait until the thread of their log dir is done, by log dir."""
        self.timer: asyncio.TimerHandle | None = None
        self.is_late = False
        """No disk is asked any more."""

    def note(self, place: int, result: ListOffsetsResult) -> None:
        self.results[place] = result
        self.left -= 1

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class ListOffsetsApi:
    """Handles list-offsets requests."""

    def __init__(self, partitions: PartitionLookup, io: IoPort, fail: FailRequest, now_ms: Callable[[], int]) -> None:
        self._partitions, self._io, self._fail = partitions, io, fail
        self._turns: defaultdict[str, PartyTurns] = defaultdict(lambda: PartyTurns(LOOK_UPS_OF_PARTY))
        """The turns of the parties, by log dir."""
        self._lines = ThrottledLines(now_ms, CLIENTS_SUBJECTS_MAX)

    def handle(self, request: Request, body: ListOffsetsRequest) -> None:
        if request.is_abandoned:  # its client gave it up while it was queued
            return
        answering = _Answering(request, body)
        for place in range(len(answering.wanted)):
            self._answer(answering, place)
        self._complete_if_whole(answering)

    def _answer(self, answering: _Answering, place: int, cold: ColdLookUp | None = None) -> None:
        """Finds the result, or leaves it to a thread; `cold` is the look-up for it that has run."""
        asked = answering.wanted[place]
        try:
            partition = self._partitions.get(asked.partition, asked.topic_id)
            log_dir = partition.log.log_dir
            if log_dir in answering.at_work and not answering.is_late and asked.timestamp_ms not in BOUNDS:
                answering.put_off[log_dir].append(place)
                return
            found = _look_up(partition, asked, cold, answering.read_committed)
            if isinstance(found, ColdLookUp):
                self._begin(answering, place, found, log_dir)
                return
        except ApiError as error:
            answering.note(place, ListOffsetsResult(asked.partition, without_frames(error)))
            return
        result = ListOffsetsResult(asked.partition)
        if found is not None:
            result = ListOffsetsResult(asked.partition, None, found.offset, found.timestamp_ms, found.leader_epoch)
        answering.note(place, result)

    def _begin(self, answering: _Answering, place: int, cold: ColdLookUp, log_dir: str) -> None:
        if answering.is_late:
            cold.discard()
            raise RequestTimedOutError(
                f"the disk of {log_dir} has not answered within {answering.disk_wait_ms} ms, or has too many other "
                "look-ups of this client; try again"
            )
        turns, party = self._turns[log_dir], party_of(answering.request.caller)

        def done() -> None:
            rest_us = REST * max(cold.notes.spent_us - LONG_LOOK_UP_US, 0)
            if rest_us:
                asyncio.get_running_loop().call_later(rest_us / 1e6, turns.done, party)
            else:
                turns.done(party)
            self._tell_of_undecodable(answering.wanted[place].partition, cold.notes.undecodable)
            self._went_on(answering, lambda: self._go_on(answering, place, cold, log_dir))

        if not turns.begin(party):
            cold.discard()
            turns.wait(party, lambda: self._went_on(answering, lambda: self._go_on(answering, place, None, log_dir)))
        elif not self._io.submit(log_dir, IoWork.LOOK_UP, cold.run, done):
            cold.discard()
            turns.done(party)
            raise ResourceExhaustedError(f"too many reads wait for the disk of {log_dir}; try again later")
        answering.at_work.add(log_dir)
        if answering.timer is None:
            answering.timer = asyncio.get_running_loop().call_later(
                answering.disk_wait_ms / 1000, lambda: self._went_on(answering, lambda: self._time_up(answering))
            )

    def _tell_of_undecodable(self, partition: TopicPartition, undecodable: list[str]) -> None:
        if undecodable and (unsaid := self._lines.due(partition)) is not None:
            others = f" and {len(undecodable) - 1} more" if len(undecodable) > 1 else ""
            _log.warning("%s, so a look-up by time skips it%s%s", undecodable[0], others, unsaid)

    def _go_on(self, answering: _Answering, place: int, cold: ColdLookUp | None, log_dir: str) -> None:
        answering.at_work.discard(log_dir)
        self._answer(answering, place, cold)
        put_off = answering.put_off[log_dir]
        while put_off and log_dir not in answering.at_work:
            self._answer(answering, put_off.popleft())

    def _time_up(self, answering: _Answering) -> None:
        answering.is_late = True
        for place, found in enumerate(answering.results):
            if found is None:
                self._answer(answering, place)

    def _went_on(self, answering: _Answering, step: Callable[[], None]) -> None:
        if answering.is_late or answering.request.is_abandoned:
            answering.cancel_timer()
            return
        try:
            step()
            self._complete_if_whole(answering)
        except Exception as error:
            answering.cancel_timer()
            self._fail(answering.request, error)

    def _complete_if_whole(self, answering: _Answering) -> None:
        if not answering.left:
            answering.cancel_timer()
            found = [result for result in answering.results if result is not None]
            answering.request.complete(ListOffsetsResponse(tuple(found)), found)


Found = TimestampAndOffset | None | ColdLookUp


def _look_up(partition: Partition, asked: ListOffsetsPartition, cold: ColdLookUp | None, read_committed: bool) -> Found:
    """A look-up by time reads the log, so a disk error is the partition's, as in a read."""
    try:
        return _find(partition, asked, cold, read_committed)
    except (OSError, CorruptFileError, KafkaStorageError) as error:
        partition.reports.disk_error(partition, error)
        raise KafkaStorageError(f"{partition.topic_partition}: reading failed: {error}") from error


def _find(partition: Partition, asked: ListOffsetsPartition, cold: ColdLookUp | None, read_committed: bool) -> Found:
    leading = partition.leader_state(asked.current_leader_epoch)
    log = partition.log
    if asked.timestamp_ms == EARLIEST_TIMESTAMP:
        return TimestampAndOffset(-1, log.log_start_offset, log.epoch_for_offset(log.log_start_offset))
    if partition.high_watermark < leading.epoch_start_offset:
        raise unknown_high_watermark(partition.topic_partition, partition.high_watermark, leading.epoch_start_offset)
    end = partition.last_stable_offset if read_committed else partition.high_watermark
    if asked.timestamp_ms == LATEST_TIMESTAMP:
        return TimestampAndOffset(-1, end, partition.state.leader_epoch)
    if asked.timestamp_ms != MAX_TIMESTAMP and asked.timestamp_ms < 0:
        raise InvalidRequestError(f"timestamp_ms {asked.timestamp_ms} must be 0 or more, or -1, -2 or -3")
    if cold is not None:
        found = log.reader.finish_look_up(cold, log.log_start_offset)
    elif asked.timestamp_ms == MAX_TIMESTAMP:
        found = log.reader.look_up_nowait(TimeLookUp(log.log_start_offset, None, end))
    else:
        found = log.reader.look_up_nowait(TimeLookUp(log.log_start_offset, asked.timestamp_ms))
    if isinstance(found, TimestampAndOffset) and found.offset >= end:
        return None
    return found


SERVED: Final = (
    Served(
        api=LIST_OFFSETS,
        rule=list_offsets_rule,
        make=lambda parts: ListOffsetsApi(parts.hosted, parts.io_threads, parts.fail, parts.clock.now_ms).handle,
    ),
)
