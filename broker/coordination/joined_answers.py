"""Requests about several ids of a coordinator: parted among the shards that hold them, and the answers joined.

Also what every request needs: its ticket (`answers`) and its sender (`client_of`). Not here: the kinds of requests
(group_coordinator.py, transaction_coordinator.py), and which shard holds an id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from broker.coordination.led_shard import LedShard
from broker.coordination.turn import Client, Ticket
from broker.load.party_shares import NOBODY
from broker.network.parties import party_of
from broker.network.request_channel import Request
from penstock.errors import ApiError, CoordinatorNotAvailableError, NotCoordinatorError
from penstock.lazy_dataclass import dataclass
from penstock.messages.api import Api, no_outcomes
from penstock.messages.apis import APIS


@dataclass(frozen=True, slots=True)
class ManyIds:
    """How a request is parted by id, and its answer joined."""

    ids: Callable[[Any], Sequence[str]]
    narrowed: Callable[[Any, Sequence[int]], Any]
    """The request for these ids alone, by their places in it."""
    parts: Callable[[Any], Sequence[Any]]
    """The parts of a shard's answer, one for each id of its request."""
    failed: Callable[[Any, int, ApiError], Any]
    """The part of the id at a place of the request, whose shard has no answer."""
    joined: Callable[[tuple[Any, ...]], Any]


class JoinedAnswer:
    """Collects the parts of one request; `done` is called once, when the last one is there."""

    def __init__(self, of: ManyIds, request: Any, done: Ticket) -> None:
        self._of, self._request, self._done = of, request, done
        self._open = len(of.ids(request))
        self._parts: list[Any] = [None] * self._open
        self._finish_if_whole()

    def fail(self, places: Sequence[int], error: ApiError) -> None:
        self._take(places, [self._of.failed(self._request, place, error) for place in places])

    def ticket(self, places: Sequence[int]) -> Ticket:
        """Takes the answer, or the error, of the shard that was asked for the ids at these places."""

        def answered(answer: Any) -> None:
            if isinstance(answer, ApiError):
                self.fail(places, answer)
            else:
                self._take(places, self._of.parts(answer))

        return answered

    def _take(self, places: Sequence[int], parts: Sequence[Any]) -> None:
        for place, part in zip(places, parts, strict=True):
            self._parts[place] = part
        self._open -= len(places)
        self._finish_if_whole()

    def _finish_if_whole(self) -> None:
        if self._open == 0:
            self._done(self._of.joined(tuple(self._parts)))


class JoinedList:
    """Collects the answers of all shards; the first error stands for the whole list, which would not be complete.

    NOT_COORDINATOR is an error of one id. Clients of lists know COORDINATOR_NOT_AVAILABLE for it, and ask again."""

    def __init__(self, shards: int, joined: Callable[[Sequence[Any]], Any], done: Ticket) -> None:
        self._open, self._joined, self._done = shards, joined, done
        self._answers: list[Any] = []
        self._error: ApiError | None = None
        self._finish_if_whole()

    def __call__(self, answer: Any) -> None:
        self._open -= 1
        if isinstance(answer, ApiError):
            is_of_id = isinstance(answer, NotCoordinatorError)
            self._error = self._error or (CoordinatorNotAvailableError(str(answer)) if is_of_id else answer)
        else:
            self._answers.append(answer)
        self._finish_if_whole()

    def _finish_if_whole(self) -> None:
        if self._open == 0:
            self._done(self._error or self._joined(self._answers))


def submit_parted(
    kind: ManyIds, body: Any, shard_of: Callable[[str], LedShard[Any]], client: Client, done: Ticket
) -> None:
    """Give each shard its part of a request; `shard_of` raises the error of an id that has none here."""
    joined = JoinedAnswer(kind, body, done)
    places: dict[LedShard[Any], list[int]] = defaultdict(list)
    for place, name in enumerate(kind.ids(body)):
        try:
            places[shard_of(name)].append(place)
        except ApiError as error:
            joined.fail([place], error)
    for shard, of_shard in places.items():
        shard.submit(joined.ticket(of_shard), kind.narrowed(body, of_shard), client)


def client_of(request: Request) -> Client:
    """The request's client. Its host has a slash before it, as Kafka's tools show it."""
    visibility = None if request.rights is None else request.rights.visibility()
    caller = request.caller
    party = party_of(caller) if caller.node_id is None else NOBODY
    return Client(request.client_id, f"/{caller.peer.host}", visibility, party)


def answers(request: Request) -> Ticket:
    """Answers a request, and counts the errors of its parts."""
    api: Api[Any, Any] | None = APIS.get(request.api)
    outcomes = no_outcomes if api is None else api.outcomes

    def answer(given: Any) -> None:
        if isinstance(given, ApiError):
            request.fail(given)
        else:
            request.complete(given, outcomes(given))

    return answer
