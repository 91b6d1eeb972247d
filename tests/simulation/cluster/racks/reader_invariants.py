"""I95, I96: where consumers with racks read, what a follower serves them, and what they are shown.

I95 is judged at each answer of a broker, in the moment in which it is given: by the partition as that broker has it.
That a high watermark of a follower is committed is I17; that what readers got is committed is I16. I96 is judged after
each step of the clients. A reader whose follower is down or stands still must be elsewhere after BACK_SECONDS, and one
that wants something of a broker asks it within NEGLECTED_SECONDS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.network.request_channel import Request, ResponseSink
from broker.node.node import Node
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.partition import Partition
from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.messages.fetch import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.record.batch import iter_headers
from penstock.types import NO_EPOCH, NO_LEADER, NO_OFFSET, TopicPartition
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.liveness_invariants import is_down
from tests.simulation.cluster.machine import Machine

BACK_SECONDS = 5.0
"""A fetch waits for 0.5 s, and its broker is silent after 1 s more; the rest is for messages that come late."""

NEGLECTED_SECONDS = 0.3
"""A back-off's timer is due at once, and a loop that is late is late by less."""


@dataclass(slots=True)
class _Shown:
    """The things that a reader was shown of one partition."""

    generation: int = 0
    position: int = NO_OFFSET
    fetch_offset: int = NO_OFFSET
    end: int = NO_OFFSET
    end_epoch: int = NO_EPOCH


class ReaderInvariants:
    """`broken` is told of what is found in the middle of a step."""

    def __init__(self, machines: Sequence[Machine], broken: Callable[[str], None]) -> None:
        self._machines, self._broken = machines, broken
        self._shown: dict[ConsumerCore, dict[TopicPartition, _Shown]] = {}
        self._down_s: dict[int, float] = {}
        self._neglected_s: dict[tuple[ConsumerCore, int], float] = {}
        """Since when a consumer asks a broker nothing of which it wants something."""
        self.served = self.named = 0
        """Answers of followers with records, and answers that named a follower."""

    # -- I95 -----------------------------------------------------------------------------------------------------------

    def handling(self, node: Node, request: Request, hosted: HostedPartitions) -> None:
        """A broker begins with a request."""
        body = request.body
        if isinstance(body, FetchRequest) and body.replica_id < 0 and body.rack_id:
            request.sink = _HeardAnswers(request.sink, lambda response: self._answered(node, body, response, hosted))

    def _answered(self, node: Node, body: FetchRequest, answer: FetchResponse, hosted: HostedPartitions) -> None:
        for result in answer.partitions:
            partition = hosted.find(result.partition)
            if partition is None or partition.topic_id != result.topic_id:
                continue
            why = self._wrong(node, body, result, partition)
            if why:
                self._broken(f"I95: node-{partition.broker_id}, {result.partition}: {why}")

    def _wrong(self, node: Node, body: FetchRequest, result: PartitionFetchResult, partition: Partition) -> str:
        if result.preferred_read_replica != NO_LEADER:
            self.named += 1
            return self._wrongly_named(node, body, result, partition)
        if not result.records:
            return ""
        end = max(header.next_offset for _, header in iter_headers(bytes(result.records)))
        if end > partition.high_watermark:
            return f"a consumer is given records up to {end}, the high watermark is {partition.high_watermark}"
        if partition.leading is not None:
            return ""
        self.served += 1
        if partition.broker_id not in partition.state.isr:
            return f"a follower serves that is not in the ISR {partition.state.isr}"
        if body.read_committed and end > result.last_stable_offset:
            return f"a reader of committed records is given {end}, the stable end is {result.last_stable_offset}"
        return ""

    def _wrongly_named(self, node: Node, body: FetchRequest, result: PartitionFetchResult, partition: Partition) -> str:
        named, leading = result.preferred_read_replica, partition.leading
        if leading is None or result.records:
            return f"node {named} is named by a broker that does not lead, or with records"
        broker = node.loader.image.find_broker(named)
        if named not in leading.isr:
            return f"node {named} is named, and is not in the ISR {sorted(leading.isr)}"
        if broker is None or not broker.is_active or broker.rack != body.rack_id:
            return f"node {named} is named to a consumer of {body.rack_id!r}, and is {broker}"
        if leading.followers[named].log_end_offset < result.fetch_offset:
            return f"node {named} is named for {result.fetch_offset}, and is known to have less"
        return ""

    # -- I96 -----------------------------------------------------------------------------------------------------------

    def watch(self, core: ConsumerCore) -> None:
        """A new consumer's."""
        self._shown[core] = {}

    def after_step(self) -> None:
        """Checks the clients' process."""
        for core, shown in self._shown.items():
            for tp, state in core.positions.states.items():
                seen = shown.setdefault(tp, _Shown())
                if seen.generation == state.generation:
                    _check(tp, state, seen)
                seen.generation, seen.position, seen.fetch_offset = state.generation, state.position, state.fetch_offset
                seen.end, seen.end_epoch = state.readable_end, state.readable_end_epoch

    def deep(self, now_s: float) -> None:
        """No reader stays at a follower that hangs or is gone, nor stands still."""
        self._shown = {core: shown for core, shown in self._shown.items() if not core.closed}
        neglected = [(core, node) for core in self._shown for node in core.fetcher.neglected]
        self._neglected_s = {key: self._neglected_s.get(key, now_s) for key in neglected}
        for (core, node), since_s in self._neglected_s.items():
            if now_s - since_s > NEGLECTED_SECONDS:
                lasts_s = now_s - since_s
                raise Violated(f"I96: {core.fetcher!r} wants something of node {node}; not asked for {lasts_s} s")
        for machine in self._machines:
            if is_down(machine):
                self._down_s.setdefault(machine.config.node_id, now_s)
            else:
                self._down_s.pop(machine.config.node_id, None)
        stuck = {node for node, since_s in self._down_s.items() if now_s - since_s > BACK_SECONDS}
        for core in self._shown if stuck else ():
            if core.buffer.is_full or core.fetcher.statistics().throttle_time_ms:
                continue
            for tp, state in core.positions.states.items():
                source = core.positions.source(tp, core.cluster.cache, core.clock.now_ms())
                at = NO_LEADER if source is None else source.node_id
                is_followed = at == state.place_of_reading.follower_id()
                if (
                    is_followed
                    and at in stuck
                    and not (state.paused or state.is_held or state.is_stopped or state.is_at_end)
                ):
                    raise Violated(f"I96: a reader of {tp} is at node {at}, which has been down for {BACK_SECONDS} s")


def _check(tp: TopicPartition, state: PartitionState, seen: _Shown) -> None:
    if state.position < seen.position or state.fetch_offset < seen.fetch_offset:
        at = f"from {seen.position}, {seen.fetch_offset} to {state.position}, {state.fetch_offset}"
        raise Violated(f"I96: a reader of {tp} goes back {at}")
    if state.readable_end_epoch <= seen.end_epoch and state.readable_end < seen.end:
        raise Violated(f"I96: a reader of {tp} is shown the end {state.readable_end} after {seen.end}")


class _HeardAnswers:
    """Hears the answer to a fetch."""

    def __init__(self, sink: ResponseSink, answered: Callable[[FetchResponse], None]) -> None:
        self._sink, self._answered = sink, answered

    def response_ready(self, request: Request) -> None:
        if isinstance(request.response, FetchResponse):
            self._answered(request.response)
        self._sink.response_ready(request)

    def part_ready(self, request: Request) -> None:
        self._sink.part_ready(request)
