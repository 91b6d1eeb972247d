"""The coordinator of transactions on one broker. Beside the work of every coordinator (coordination/coordinator.py), it

    gives a request that needs a producer id one            the shard answers NEEDS_PRODUCER_ID: again, with one
    sends the markers of each lead's decisions              led_markers.py, marker_sender.py
    refuses a list by producers that would lack some        its caller aborts what no coordinator knows
    says which APIs name several transactional ids          `TRANSACTIONAL_IDS`

Not here: decisions (transaction_shard.py), and how requests about several ids are parted and their answers joined
(coordination/joined_answers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from broker.coordination.coordinator import CoordinatedIds, Coordinator
from broker.coordination.image_topics import ImageTopics
from broker.coordination.joined_answers import ManyIds, answers, client_of
from broker.coordination.shard_ports import ShardPorts, ShardState
from broker.coordination.state_topic import StateTopic
from broker.coordination.turn import Client, Ticket
from broker.network.request_channel import Request
from broker.replication.hosting.role_news import Lead
from broker.transactions.coordinator.led_markers import LedMarkers
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID, WithProducerId
from broker.transactions.marker_port import MarkerPort
from broker.transactions.transaction_shard import TransactionShard
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from penstock.backoff import Backoff
from penstock.errors import ApiError, CoordinatorNotAvailableError, NotCoordinatorError
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionDescription,
)
from penstock.messages.transactions.producers import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionResult,
    TransactionPartitionResults,
)

OWN: Final = Client("transaction-coordinator", "/")
"""The sender of the coordinator's own requests to its shards."""
RETRY_MS, RETRY_MS_MAX = 50, 2_000
"""The pause between two tries to notify a shard of markers."""
RequestProducerId = Callable[[Callable[[int | ApiError], None]], None]
"""Calls what it is given with a producer id that nobody has, or with an error, now or later; may raise an ApiError."""


def _not_added(request: AddPartitionsToTxnRequest, place: int, error: ApiError) -> TransactionPartitionResults:
    asked = request.transactions[place]
    results = tuple(TransactionPartitionResult(partition, error) for partition in asked.partitions)
    return TransactionPartitionResults(asked.transactional_id, results)


_SEVERAL: Final[dict[type, ManyIds]] = {
    AddPartitionsToTxnRequest: ManyIds(
        lambda request: [asked.transactional_id for asked in request.transactions],
        lambda request, places: replace(request, transactions=tuple(request.transactions[place] for place in places)),
        lambda answer: answer.transactions,
        _not_added,
        AddPartitionsToTxnResponse,
    ),
    DescribeTransactionsRequest: ManyIds(
        lambda request: request.transactional_ids,
        lambda request, places: replace(
            request, transactional_ids=tuple(request.transactional_ids[place] for place in places)
        ),
        lambda answer: answer.transactions,
        lambda request, place, error: TransactionDescription(request.transactional_ids[place], error),
        DescribeTransactionsResponse,
    ),
}


def _joined(answers: Sequence[ListTransactionsResponse]) -> ListTransactionsResponse:
    """The transactions of all shards."""
    unknown = dict.fromkeys(word for answer in answers for word in answer.unknown_states)
    return ListTransactionsResponse(tuple(one for answer in answers for one in answer.transactions), tuple(unknown))


TRANSACTIONAL_IDS: Final = CoordinatedIds(
    word="transactional id", several=_SEVERAL, listing=ListTransactionsRequest, joined=_joined
)


class TransactionCoordinator(Coordinator[TransactionShard]):
    """The coordinator of transactions. There is one per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        topic: StateTopic,
        topics: ImageTopics,
        ports: ShardPorts,
        make_core: Callable[[MarkerPort], TransactionShard],
        sender: MarkerSender,
        request_id: RequestProducerId,
        random: Random,
    ) -> None:
        """`make_core` makes the core of a lead, which sends its markers by that port."""
        super().__init__(broker_id, topic, ports, lambda lead: make_core(self._markers_of(lead)), TRANSACTIONAL_IDS)
        self._topics, self._sender, self._request_id = topics, sender, request_id
        self._now_ms, self._backoff = ports.clock.now_ms, Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._markers: dict[Lead, LedMarkers] = {}
        """The ports of the leads. One is made BEFORE the shard, whose core has it, and closed AFTER it."""

    async def stop(self) -> None:
        self.close()
        while self._markers:
            self._markers.popitem()[1].close()
        await self._sender.stop()
        await super().stop()

    # -- news ----------------------------------------------------------------------------------------------------------

    def ceased_to_lead(self, lead: Lead) -> None:
        super().ceased_to_lead(lead)
        markers = self._markers.pop(lead, None)
        if markers is not None:
            markers.close()

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        self._topics.published(delta, image)
        self._sender.published(delta, image)

    # -- requests ------------------------------------------------------------------------------------------------------

    def submit(self, request: Request, transactional_id: str, body: Any) -> None:
        """A request about one transactional id; it is answered now or later."""
        client, answer = client_of(request), answers(request)
        shard = self.shard_of(transactional_id)
        shard.submit(self._given_id(transactional_id, body, client, answer), body, client)

    def _given_id(self, transactional_id: str, body: Any, client: Client, answer: Ticket) -> Ticket:
        """Takes a shard's answer: a request that needs a producer id comes again with one."""

        def again(given: int | ApiError) -> None:
            if isinstance(given, ApiError):
                answer(given)
                return
            try:
                self.shard_of(transactional_id).submit(answered, WithProducerId(body, given), client)
            except ApiError as error:
                answer(error.with_traceback(None))

        def answered(given: Any) -> None:
            if given is not NEEDS_PRODUCER_ID:
                answer(given)
                return
            try:
                self._request_id(again)
            except ApiError as error:
                answer(error.with_traceback(None))

        return answered

    def submit_each(self, request: Request, body: Any) -> None:
        """Submits a request as every coordinator does.

        A list by producer ids fails if a partition cannot be read: its caller aborts the transactions that no
        coordinator knows."""
        if isinstance(body, ListTransactionsRequest) and body.producer_ids:
            self._check_that_all_are_known()
        super().submit_each(request, body)

    def _check_that_all_are_known(self) -> None:
        if any(shard.state is ShardState.FAILED for shard in self.shards):
            raise CoordinatorNotAvailableError(
                f"broker {self._broker_id} cannot read a partition of {TRANSACTION_STATE} that it leads, so it does"
                " not know whether these producers have a coordinator; its log says why"
            )

    # -- markers -------------------------------------------------------------------------------------------------------

    def _markers_of(self, lead: Lead) -> LedMarkers:
        markers = self._markers.get(lead)
        if markers is None:
            submit = partial(self._submit_own, lead)
            markers = LedMarkers(lead, self._sender, submit, self._now_ms, self._backoff)
            self._markers[lead] = markers
        return markers

    def _submit_own(self, lead: Lead, answer: Ticket, body: Any) -> None:
        shard = self.shard_on(lead.partition)
        if shard is None or shard.lead != lead:
            answer(NotCoordinatorError(f"the lead of {lead.partition.topic_partition} is over"))
        else:
            shard.submit(answer, body, OWN)
