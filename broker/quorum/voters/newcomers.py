"""Asks a controller that is to become a voter whether it is the one that was named, before it is added (KIP-853).

Whoever fetches the metadata counts as caught up: a broker fetches them, too, and has no listener at which it could be
asked for its vote. And other voters reach a new one at the addresses with which it was added. So the leader asks there
first, by a pre-vote for that id and that disk, which changes nothing: only the node that is both takes it. (Kafka's
leader asks for the newcomer's versions there.)

Not here: which change is possible when (raft/voter_changes.py), and who asks for one (voter_requests.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.network.transport import NodeTransport
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InvalidRequestError,
    NetworkError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
)
from penstock.types import NO_EPOCH, Endpoint
from raft.messages import NO_ERROR, VoteRequest
from raft.voter_changes import WAITS_FOR
from raft.voters import Voter

TIMEOUT_MS_MAX: Final = 2_000
_TAKEN: Final = frozenset((NO_ERROR, FencedLeaderEpochError.code, UnknownLeaderEpochError.code))
"""The answers of the node that the question was meant for."""


class Newcomers:
    """The questions of one leader."""

    def __init__(
        self,
        transport_to: Callable[[Endpoint], NodeTransport],
        cluster_id: str,
        node_id: int,
        directory_id: str,
        epoch: Callable[[], int],
    ) -> None:
        """`transport_to` makes a transport by which every controller is reached at this address: it is closed after
        the question."""
        self._transport_to, self._cluster_id, self._epoch = transport_to, cluster_id, epoch
        self._node_id, self._directory_id = node_id, directory_id

    async def check(self, voter: Voter, timeout_ms: int) -> None:
        """Returns once that controller has answered at its address. RequestTimedOutError where nobody does in time, and
        InvalidRequestError where another one does."""
        endpoint = voter.endpoint(CONTROLLER_LISTENER)
        if endpoint is None:
            raise InvalidRequestError(f"voter {voter.voter_id} has no address of a listener {CONTROLLER_LISTENER}")
        transport = self._transport_to(endpoint)
        try:
            answer = await transport.send(voter.voter_id, self._question(voter), min(timeout_ms, TIMEOUT_MS_MAX))
        except (NetworkError, RequestTimedOutError) as error:
            raise RequestTimedOutError(
                f"controller {voter.voter_id} does not answer at {endpoint}, where other voters would ask it for its"
                f" vote: {error.message}; correct the address, or start it ({WAITS_FOR}), and ask again"
            ) from None
        except ApiError as error:
            raise _another(voter, endpoint, error.message) from None
        finally:
            await transport.close()
        if answer.error_code not in _TAKEN:
            raise _another(voter, endpoint, answer.error_message)

    def _question(self, voter: Voter) -> VoteRequest:
        return VoteRequest(
            self._cluster_id,
            self._epoch(),
            self._node_id,
            voter.voter_id,
            last_epoch=NO_EPOCH,
            last_epoch_end_offset=0,
            pre_vote=True,
            candidate_directory_id=self._directory_id,
            voter_directory_id=voter.directory_id or "",
        )

    def __repr__(self) -> str:
        return f"Newcomers(asked by node {self._node_id})"


def _another(voter: Voter, endpoint: Endpoint, said: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"what answers at {endpoint} is not controller {voter.voter_id} with directory id {voter.directory_id}"
        f" ({said}); name a controller, not a broker, and the address of its listener CONTROLLER"
    )
