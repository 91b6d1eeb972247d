"""The coordinator of transactional ids in a fake cluster: transaction version 2 in its simplest form.

    cluster.transactions = FakeTransactions(cluster)

An end writes the markers before it is answered, and gives the next epoch. `fail` queues errors, each for one call of an
API; `lose` queues losses: the call is carried out, and its answer is lost. `move` makes another node the coordinator,
`hang` lets calls of an API wait until it is over. `ends` and `offsets` are for tests to look at.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import (
    ApiError,
    InvalidProducerEpochError,
    NetworkError,
    NotCoordinatorError,
    ProducerFencedError,
)
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorResponse, FoundCoordinator
from penstock.messages.groups.group_apis import FIND_COORDINATOR
from penstock.messages.groups.offsets import OffsetCommitResult
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.producers import (
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from penstock.messages.transactions.transaction_apis import END_TXN, TXN_OFFSET_COMMIT
from penstock.record.batch import read_header
from penstock.record.builder import build_batch
from penstock.types import ProducerIdAndEpoch, TopicPartition
from penstock.wire.message_codec import request_codec, response_codec

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeCluster

APIS = {api.name: api for api in (FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT)}


def marker(producer_id: int, epoch: int, *, is_committed: bool) -> bytes:
    """The control batch that ends a transaction."""
    fields: Any = {"producer_id": producer_id, "producer_epoch": epoch, "is_control": True, "is_transactional": True}
    return build_batch([bytes(6)], keys=[bytes((0, 0, 0, is_committed))], timestamps_ms=1, **fields)


@dataclass
class FakeProducer:
    """A transactional id as the coordinator knows it."""

    identity: ProducerIdAndEpoch
    timeout_ms: int
    last: tuple[ProducerIdAndEpoch, bool] | None = None  # whose end was answered, and which
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


class FakeTransactions:
    """All transactional ids of the cluster."""

    def __init__(self, cluster: FakeCluster) -> None:
        """Node 1 coordinates at first."""
        self._cluster = cluster
        self.node_id = cluster.node_ids[0]
        self.producers: dict[str, FakeProducer] = {}
        self.ends: list[EndTxnRequest] = []
        self.commits: list[TxnOffsetCommitRequest] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.partition_errors: deque[ApiError] = deque()  # each refuses the partitions of one TxnOffsetCommit
        self._errors: dict[str, deque[ApiError]] = defaultdict(deque)
        self._losses: dict[str, int] = defaultdict(int)
        self._hanging: dict[str, asyncio.Event] = {}

    # -- scripts -------------------------------------------------------------------------------------------------------

    def fail(self, api: str, *errors: ApiError) -> None:
        self._errors[api].extend(errors)

    def lose(self, api: str, times: int = 1) -> None:
        self._losses[api] += times

    def move(self, node_id: int) -> None:
        self.node_id = node_id

    def hang(self, api: str) -> asyncio.Event:
        """Calls wait BEFORE they are carried out, until the event is set."""
        return self._hanging.setdefault(api, asyncio.Event())

    # -- the listener --------------------------------------------------------------------------------------------------

    def takes(self, name: str, raw: bytes) -> bool:
        if name not in APIS:
            return False
        request: Any = request_codec(APIS[name]).decode(raw)
        if name == FIND_COORDINATOR.name:
            return bool(request.key_type is CoordinatorType.TRANSACTION or self._cluster.coordinator is None)
        return name != INIT_PRODUCER_ID.name or request.transactional_id is not None

    async def call(self, node_id: int, name: str, raw: bytes) -> bytes:
        api: Any = APIS[name]
        request: Any = request_codec(api).decode(raw)
        if name in self._hanging:
            await self._hanging[name].wait()
        if self._errors[name]:
            raise self._errors[name].popleft()
        if api is FIND_COORDINATOR:
            answer: Any = FindCoordinatorResponse(tuple(FoundCoordinator(key, self.node_id) for key in request.keys))
        elif node_id != self.node_id:
            raise NotCoordinatorError(f"node {self.node_id} is")
        elif api is INIT_PRODUCER_ID:
            answer = self._init(request)
        elif api is END_TXN:
            answer = self._end(request)
        else:
            answer = self._take_offsets(request)
        if self._losses[name]:
            self._losses[name] -= 1
            raise NetworkError("the answer was lost")
        return bytes(response_codec(api).encode(answer))

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        name = request.transactional_id or ""
        known = self.producers.get(name)
        if known is None:
            self._cluster.producer_ids_given += 1
            identity = ProducerIdAndEpoch(1_000 + self._cluster.producer_ids_given, 0)
            self.producers[name] = FakeProducer(identity, request.transaction_timeout_ms)
        else:
            self._close(known, is_committed=False)
            known.last = None
        return InitProducerIdResponse(*self.producers[name].identity)

    def _end(self, request: EndTxnRequest) -> EndTxnResponse:
        self.ends.append(request)
        known = self.producers[request.transactional_id]
        asked = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        if known.last == (asked, request.is_committed):
            return EndTxnResponse(*known.identity)
        if known.identity != asked:
            raise ProducerFencedError(f"{asked} is over, {known.identity} counts")
        self._close(known, is_committed=request.is_committed)
        known.last = asked, request.is_committed
        return EndTxnResponse(*known.identity)

    def _close(self, known: FakeProducer, *, is_committed: bool) -> None:
        known.identity = known.identity._replace(epoch=known.identity.epoch + 1)
        for log in self._cluster.logs.values():
            log.end_transaction(*known.identity, is_committed=is_committed)
        if is_committed:
            self.offsets |= known.offsets
        known.offsets = {}
        self._cluster.grow()

    def check(self, records: bytes) -> None:
        """A leader adds the partition of a batch to its transaction."""
        header = read_header(records)
        for known in self.producers.values():
            if known.identity.producer_id == header.producer_id and known.identity.epoch != header.producer_epoch:
                raise InvalidProducerEpochError(f"{known.identity} counts")

    def _take_offsets(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        self.commits.append(request)
        known = self.producers[request.transactional_id]
        if known.identity != (request.producer_id, request.producer_epoch):
            raise ProducerFencedError("another epoch counts")
        error = self.partition_errors.popleft() if self.partition_errors else None
        if error is None:
            known.offsets |= {part.partition: part.offset for part in request.partitions}
        return TxnOffsetCommitResponse(tuple(OffsetCommitResult(part.partition, error) for part in request.partitions))
