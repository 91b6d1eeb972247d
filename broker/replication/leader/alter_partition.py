"""Sends proposed ISRs to the controller, and gives its answers to the partitions.

One request is under way at a time (broker/call_queue.py) and carries all partitions that have a proposal, up to a limit
(KIP-497). While the outcome is unknown the proposal stays with the partition, so that its maximal ISR counts; it is
sent again until the controller has accepted or refused it, or the partition has moved to another epoch. A refusal with
INELIGIBLE_REPLICA ends it at once (KIP-841): the controller has raised the partition epoch before it answered, so that
no earlier copy of the request can be accepted later.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from itertools import islice
from random import Random
from typing import Protocol

from broker.call_queue import CallQueue
from broker.replication.leader.leader_state import ProposedIsr
from broker.replication.partition import Partition
from penstock.backoff import Backoff
from penstock.errors import ApiError, IneligibleReplicaError, NotControllerError
from penstock.messages.nodes.partitions import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

RETRY_MS = 50
RETRY_MS_MAX = 200
"""A proposal that waits may hold up every acks=all of its partition, so the waits stay short; a controller can bear a
request from each broker that often. Refused proposals wait as long, because each refusal is a record of metadata."""
PARTITIONS_MAX = 1_000
"""The most partitions of one request. The controller refuses a request with more than 10,000, and when a broker dies,
leaders may have that many proposals at once."""


class IsrProbe(Protocol):
    """Hears of the changes of ISRs that this broker asks for. It must not raise. In production nobody listens."""

    def isr_asked(self, request: AlterPartitionRequest) -> None:
        """The request is about to be sent to the controller."""
        return

    def isr_answered(self, request: AlterPartitionRequest, response: AlterPartitionResponse) -> None:
        """The controller has answered, and nothing was done about it yet."""
        return


class UnheardIsr(IsrProbe):
    """Ignores everything: the probe of a process."""


UNHEARD_ISR = UnheardIsr()


class AlterPartitionManager:
    """Sends proposed ISRs. There is one per node; `propose` is called by isr_upkeep.py."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        call: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
        on_fatal: Callable[[BaseException], None],
        random: Random,
        probe: IsrProbe = UNHEARD_ISR,
    ) -> None:
        self._broker_id = broker_id
        self._probe = probe
        self._request: AlterPartitionRequest | None = None
        self._broker_epoch = broker_epoch
        self._proposals: dict[TopicPartition, tuple[Partition, ProposedIsr]] = {}
        self._asked: dict[TopicPartition, tuple[Partition, ProposedIsr]] = {}
        self.calls = CallQueue("alter-partition", self, call, Backoff(RETRY_MS, RETRY_MS_MAX, random), on_fatal)

    def propose(self, partition: Partition, proposed: ProposedIsr) -> None:
        self._proposals[partition.topic_partition] = (partition, proposed)
        self.calls.wake()

    def next_request(self) -> AlterPartitionRequest | None:
        """The oldest proposals, without those that their partitions do not make any more."""
        self._proposals = {
            key: (partition, proposed)
            for key, (partition, proposed) in self._proposals.items()
            if partition.leading is not None and partition.leading.proposed == proposed
        }
        self._asked = dict(islice(self._proposals.items(), PARTITIONS_MAX))
        if not self._asked:
            return None
        proposals = (
            AlterPartitionData(
                partition.log.topic_id,
                key.partition,
                partition.state.leader_epoch,
                proposed.partition_epoch,
                proposed.members,
            )
            for key, (partition, proposed) in self._asked.items()
        )
        self._request = AlterPartitionRequest(self._broker_id, self._broker_epoch(), tuple(proposals))
        self._probe.isr_asked(self._request)
        return self._request

    def failed(self, error: ApiError, _attempt: int) -> None:
        _log.warning("AlterPartition for %d partitions: %s; retrying", len(self._asked), error)

    def answered(self, answer: AlterPartitionResponse, _attempt: int) -> bool:
        """False before something is proposed again, or refused again."""
        if self._request is not None:
            self._probe.isr_answered(self._request, answer)
        by_id = {(p.log.topic_id, key.partition): (p, proposed) for key, (p, proposed) in self._asked.items()}
        for result in answer.partitions:
            found = by_id.get((result.topic_id, result.partition))
            if found is not None:
                self._one_answered(*found, result)
        is_refused = any(isinstance(result.error, IneligibleReplicaError) for result in answer.partitions)
        return not is_refused and self._proposals.keys().isdisjoint(self._asked)

    def _one_answered(self, partition: Partition, proposed: ProposedIsr, result: AlterPartitionResult) -> None:
        key = partition.topic_partition
        if isinstance(result.error, NotControllerError):
            return  # that controller's metadata was older than this broker's: the proposal stays, and is sent again
        if self._proposals.get(key, (None, None))[1] == proposed:
            del self._proposals[key]
        if result.error is None:
            partition.isr_committed(result.isr, result.leader_epoch, result.partition_epoch, result.elr)
        elif isinstance(result.error, IneligibleReplicaError):
            _log.info("%s: ISR %s refused: %s", partition, sorted(proposed.ids), result.error)
            partition.isr_rejected(proposed)
        else:
            # Another state is committed, perhaps by an earlier try of the same proposal. The proposal counts in the
            # maximal ISR until the metadata log brings that state (I12).
            _log.info("%s: ISR %s was not accepted: %s", partition, sorted(proposed.ids), result.error)
