"""The coordinator of transactions on one broker: one shard for each partition of `__transaction_state` that it leads.

    request ──► the id's partition ──► its shard ──► the decision, appended ──► commit ──► answer
                                         │ NEEDS_PRODUCER_ID: again, with one            └► markers (marker_sender.py)

It hears which partitions the broker leads (`RoleListener`) and of the metadata. A request for an id of another broker
gets NOT_COORDINATOR, one for an id that is being loaded COORDINATOR_LOAD_IN_PROGRESS. Every request is answered, also
when the broker stops. Not here: decisions (transaction_shard.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

from broker.coordination.joined_answers import Answer, JoinedList, answers, client_of, submit_parted
from broker.coordination.led_shard import LedShard
from broker.coordination.shard_ports import ShardPorts, ShardState
from broker.coordination.state_topic import StateTopic
from broker.coordination.turn import Client
from broker.network.request_channel import Request
from broker.replication.hosting.role_news import Lead
from broker.transactions.coordinator.led_markers import LedMarkers
from broker.transactions.coordinator.many_ids import MANY_IDS, joined_transactions
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID, WithProducerId
from broker.transactions.marker_port import MarkerPort
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import ApiError, CoordinatorNotAvailableError, NotCoordinatorError
from penstock.messages.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.messages.transactions.listing import ListTransactionsRequest

OWN: Final = Client("transaction-coordinator", "/")
"""The sender of the coordinator's own requests to its shards."""
RETRY_MS, RETRY_MS_MAX = 50, 2_000
"""The pause between two tries to notify a shard of markers."""
RequestProducerId = Callable[[Callable[[int | ApiError], None]], None]
"""Calls what it is given with a producer id that nobody has, or with an error, now or later; may raise an ApiError."""


class TransactionCoordinator:
    """The coordinator of transactions. There is one per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        topic: StateTopic,
        sender: MarkerSender,
        request_id: RequestProducerId,
        ports_of: Callable[[MarkerPort], ShardPorts],
        clock: Clock,
        random: Random,
    ) -> None:
        """`ports_of` makes those of one lead, whose core sends its markers by that port."""
        self._broker_id, self._topic, self._sender, self._request_id = broker_id, topic, sender, request_id
        self._ports_of, self._now_ms = ports_of, clock.now_ms
        self._backoff = Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._shards: dict[int, LedShard] = {}
        self._markers: dict[int, LedMarkers] = {}
        self._is_stopped = False

    def start(self) -> None:
        self._topic.start()

    async def stop(self) -> None:
        """Every request that waits is answered; those that come now get NOT_COORDINATOR. BEFORE the doors close."""
        self._is_stopped = True
        for number in tuple(self._shards):
            self._close(number)
        await self._sender.stop()
        await self._topic.stop()

    # -- news ----------------------------------------------------------------------------------------------------------

    def began_to_lead(self, lead: Lead) -> None:
        key = lead.partition.topic_partition
        if key.topic == TRANSACTION_STATE and not self._is_stopped:
            submit = partial(self._submit_own, lead)
            markers = LedMarkers(lead, self._sender, submit, self._now_ms, self._backoff)
            self._markers[key.partition] = markers
            self._shards[key.partition] = LedShard(lead, self._ports_of(markers))

    def ceased_to_lead(self, lead: Lead) -> None:
        key = lead.partition.topic_partition
        if key.topic == TRANSACTION_STATE:
            self._close(key.partition)

    def _close(self, number: int) -> None:
        shard, markers = self._shards.pop(number, None), self._markers.pop(number, None)
        if shard is not None:
            shard.close()
        if markers is not None:
            markers.close()

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        self._sender.published(delta, image)

    # -- requests ------------------------------------------------------------------------------------------------------

    def submit(self, request: Request, transactional_id: str, body: Any) -> None:
        """A request about one transactional id; it is answered now or later."""
        client, answer = client_of(request), answers(request)
        self._shard_of(transactional_id).submit(self._given_id(transactional_id, body, client, answer), body, client)

    def _given_id(self, transactional_id: str, body: Any, client: Client, answer: Answer) -> Answer:
        """Takes a shard's answer: a request that needs a producer id comes again with one."""

        def again(given: int | ApiError) -> None:
            if isinstance(given, ApiError):
                answer(given)
                return
            try:
                self._shard_of(transactional_id).submit(answered, WithProducerId(body, given), client)
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

    def _submit_own(self, lead: Lead, answer: Answer, body: Any) -> None:
        shard = self._shards.get(lead.partition.topic_partition.partition)
        if shard is None or shard.lead != lead:
            answer(NotCoordinatorError(f"the lead of {lead.partition.topic_partition} is over"))
        else:
            shard.submit(answer, body, OWN)

    def submit_each(self, request: Request, body: Any) -> None:
        """Submits a request about several transactional ids of any shards, or about all transactions here
        (ListTransactions).

        A list leaves out a partition that cannot be read: an operator needs the others. While a partition is being
        loaded the request fails, because the list would be taken for a complete one. For the same reason a list by
        producer ids fails if a partition cannot be read: its caller aborts the transactions that no coordinator
        knows."""
        if isinstance(body, ListTransactionsRequest):
            shards = [shard for shard in self._shards.values() if shard.state is not ShardState.FAILED]
            if body.producer_ids and len(shards) < len(self._shards):
                raise CoordinatorNotAvailableError(
                    f"broker {self._broker_id} cannot read a partition of {TRANSACTION_STATE} that it leads, so it does"
                    " not know whether these producers have a coordinator; its log says why"
                )
            joined = JoinedList(len(shards), joined_transactions, answers(request))
            for shard in shards:
                shard.submit(joined, body, client_of(request))
            return
        submit_parted(MANY_IDS[type(body)], body, self._shard_of, client_of(request), answers(request))

    def find(self, request: Request, body: FindCoordinatorRequest) -> None:
        """FindCoordinator for transactional ids; answered at once."""
        answers(request)(FindCoordinatorResponse(tuple(self._topic.coordinator_of(key) for key in body.keys)))

    def coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        """The partition of a transactional id, and the broker that leads it; ApiError if it has no leader now."""
        number = self._topic.partition_of(transactional_id)
        found = self._topic.coordinator_of(transactional_id)
        if found.error is not None:
            raise found.error
        return number, found.node_id

    def _shard_of(self, transactional_id: str) -> LedShard:
        number = self._topic.partition_of(transactional_id)
        shard = self._shards.get(number)
        if shard is None:
            raise NotCoordinatorError(
                f"broker {self._broker_id} does not lead {TRANSACTION_STATE}-{number}, which has transactional id"
                f" {transactional_id!r}"
            )
        return shard

    @property
    def shards(self) -> Iterator[LedShard]:
        """The shards in no order; for statistics, which may be read in any thread."""
        return iter(tuple(self._shards.values()))

    def __repr__(self) -> str:
        return f"TransactionCoordinator(broker {self._broker_id}, {len(self._shards)} shards)"
