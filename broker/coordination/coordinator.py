"""The coordinator of one kind of ids on this broker: one shard for each partition of its topic that the broker leads.

    request ──► the id's partition ──► its shard (led_shard.py) ──► the decision, appended ──► commit ──► answer

It hears which partitions the broker leads (`RoleListener`). A request for an id of another broker gets NOT_COORDINATOR,
one for an id that is being loaded COORDINATOR_LOAD_IN_PROGRESS. Every request is answered, also when the broker stops.
Groups and transactional ids have one each. Not here: decisions (the cores), and requests that only one of the two knows
(groups/coordinator/, transactions/coordinator/: each is such a coordinator, and more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic

from broker.coordination.joined_answers import JoinedList, ManyIds, answers, client_of, submit_parted
from broker.coordination.led_shard import LedShard
from broker.coordination.shard_ports import Core, ShardPorts, ShardState
from broker.coordination.state_topic import StateTopic
from broker.network.request_channel import Request
from broker.replication.hosting.role_news import Lead
from broker.replication.partition import Partition
from penstock.errors import NotCoordinatorError
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedIds:
    """The ids of a coordinator, as requests about several of them have them."""

    word: str
    """An id's name in errors, such as group."""
    several: Mapping[type, ManyIds]
    """One row for each API whose request names several ids, by the type of the request."""
    listing: type
    """The request for the list of all ids."""
    joined: Callable[[Sequence[Any]], Any]
    """Makes one list of the answers of all shards."""


class Coordinator(Generic[Core]):
    """The shards of one topic's partitions that this broker leads. Used on the event loop."""

    def __init__(
        self,
        broker_id: int,
        topic: StateTopic,
        ports: ShardPorts,
        make_core: Callable[[Lead], Core],
        ids: CoordinatedIds,
    ) -> None:
        """`make_core` makes an empty core for a lead, at its begin and for each load after the first."""
        self._broker_id, self._topic, self._ports, self._make_core, self._ids = broker_id, topic, ports, make_core, ids
        self._shards: dict[int, LedShard[Core]] = {}
        self._is_closed = False

    def start(self) -> None:
        self._topic.start()

    def close(self) -> None:
        """Every request that waits is answered; those that come now get NOT_COORDINATOR. BEFORE the listeners close."""
        self._is_closed = True
        while self._shards:
            self._shards.popitem()[1].close()

    async def stop(self) -> None:
        """Closes the shards, and ends the calls and the threads that served them."""
        self.close()
        await self._topic.stop()
        self._ports.loader.close()

    # -- leads ---------------------------------------------------------------------------------------------------------

    def began_to_lead(self, lead: Lead) -> None:
        if self._is_of_topic(lead) and not self._is_closed:
            number = lead.partition.topic_partition.partition
            self._shards[number] = LedShard(lead, self._ports, partial(self._make_core, lead))

    def ceased_to_lead(self, lead: Lead) -> None:
        if not self._is_of_topic(lead):
            return
        shard = self._shards.pop(lead.partition.topic_partition.partition, None)
        if shard is not None:
            shard.close()

    def _is_of_topic(self, lead: Lead) -> bool:
        return lead.partition.topic_partition.topic == self._topic.name

    # -- requests ------------------------------------------------------------------------------------------------------

    def submit_each(self, request: Request, body: Any) -> None:
        """Submits a request about several ids of any shards, or about all ids that are coordinated here.

        A list leaves out a partition that cannot be read: its ids are nowhere else, and an operator needs the others.
        While a partition is being loaded the request fails, because the list would be taken for a complete one."""
        if isinstance(body, self._ids.listing):
            shards = [shard for shard in self._shards.values() if shard.state is not ShardState.FAILED]
            joined = JoinedList(len(shards), self._ids.joined, answers(request))
            for shard in shards:
                shard.submit(joined, body, client_of(request))
            return
        submit_parted(self._ids.several[type(body)], body, self.shard_of, client_of(request), answers(request))

    def find(self, request: Request, body: FindCoordinatorRequest) -> None:
        """FindCoordinator; answered at once."""
        answers(request)(FindCoordinatorResponse(tuple(self._topic.coordinator_of(key) for key in body.keys)))

    def partition_of(self, key: str) -> int:
        """The partition of the topic that has this id. An ApiError for an id that there cannot be, and while there is
        no topic: it is being made then."""
        return self._topic.partition_of(key)

    # -- shards --------------------------------------------------------------------------------------------------------

    def shard_of(self, key: str) -> LedShard[Core]:
        """The shard that has this id. An ApiError if another broker leads it, and those of `partition_of`."""
        number = self._topic.partition_of(key)
        shard = self._shards.get(number)
        if shard is None:
            partition, word = f"{self._topic.name}-{number}", self._ids.word
            raise NotCoordinatorError(f"broker {self._broker_id} does not lead {partition}, which has {word} {key!r}")
        return shard

    def shard_on(self, partition: Partition) -> LedShard[Core] | None:
        """The shard whose log is this partition; None once its lead is over."""
        shard = self._shards.get(partition.topic_partition.partition)
        return None if shard is None or shard.partition is not partition else shard

    @property
    def shards(self) -> Iterator[LedShard[Core]]:
        """The shards in no order; for statistics, which may be read in any thread."""
        return iter(tuple(self._shards.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._topic.name} on broker {self._broker_id}, {len(self._shards)} shards)"
