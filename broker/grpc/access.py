"""Decides who may ask at a listener, and from when on. An edge; it decides by values alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import grpc.aio

from broker.connections.turns import PeerTurns
from broker.grpc.callers import AnonymousCallers, Callers, SessionCallers
from broker.grpc.heard import HeardConnections
from broker.network.request_channel import Caller
from penstock.errors import InvalidRequestError, NetworkError
from penstock.messages.api import Api
from penstock.types import CONSUMER_REPLICA_ID, Endpoint

NOT_OPEN = "this node has not caught up with the metadata yet; ask another one"


class ListenerAccess:
    """The access to one listener."""

    def __init__(
        self,
        listener: str,
        inter_broker_listener: str,
        callers: Callers | None = None,
        turns: PeerTurns | None = None,
    ) -> None:
        """`listener` is its own name; without `callers` all of them are anonymous. `turns`: of new connections, which
        have no quotas without it."""
        self._turns = turns
        self._callers = AnonymousCallers(listener) if callers is None else callers
        self._log_ins = callers if isinstance(callers, SessionCallers) else None
        self._inter_broker_listener = inter_broker_listener
        self._is_open = False
        self.heard = HeardConnections()

    def open(self) -> None:
        """Requests are taken from now on.

        Not before the node has caught up: until then it knows no topic, and would tell a client with an old address
        that its topic does not exist. (Kafka, too, enables request processing only then.)
        """
        self._is_open = True

    def must_be_open(self) -> None:
        if not self._is_open:
            raise NetworkError(NOT_OPEN)

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        """The caller; a typed error if it may not call here."""
        caller = self._callers.caller(context, api)
        self.heard.asked(caller)
        return caller

    def is_known(self, peer: Endpoint) -> bool:
        """False if callers of that connection have still to log in."""
        return self._callers.is_known(peer)

    def has_asked(self, peer: Endpoint) -> bool:
        """True if a call came over that connection. Safe to call from any thread."""
        return self.heard.of(peer) is not None

    @property
    def has_log_ins(self) -> bool:
        """True if callers log in by calls."""
        return self._log_ins is not None

    async def wait_turn(self, caller: Caller) -> None:
        """Returns once a new connection may ask."""
        if self._turns is not None:
            await self._turns.wait(caller.peer)

    def check_still(self, caller: Caller) -> None:
        """AuthenticationRequiredError if who has opened a stream is not logged in any more."""
        if self._log_ins is not None:
            self._log_ins.check_still(caller)
        self.heard.asked(caller)

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """These connections of the listener were open after that time (monotonic)."""
        if self._turns is not None:
            self._turns.looked(connected, began_ms)
        self._callers.looked(connected, began_ms)
        self.heard.looked(connected)

    def proven(self) -> Mapping[Endpoint, str]:
        """The connections by which somebody has proved an identity, and whose it is."""
        return self._callers.proven()

    def check_asker(self, api: Api[Any, Any], body: Any, caller: Caller, is_clients: bool) -> None:
        """Replicas fetch at their own listener, and only they do. A node asks in its own name."""
        if api.replica_id is not None:  # a replica would get a fuller answer than a client
            self._check_replica(api.name, api.replica_id(body), is_clients)
        self._callers.check_sender(api, body, caller)

    def _check_replica(self, api: str, replica_id: int, is_clients: bool) -> None:
        if is_clients and replica_id != CONSUMER_REPLICA_ID:
            raise InvalidRequestError(
                f"{api}: replica id {replica_id} is not served to clients; brokers connect to the listener "
                f"{self._inter_broker_listener} (inter.broker.listener.name), consumers send {CONSUMER_REPLICA_ID}"
            )
        if not is_clients and replica_id < 0:
            raise InvalidRequestError(
                f"{api}: replica id {replica_id} is no broker's; the listener {self._inter_broker_listener} is for "
                "brokers, clients connect to BROKER"
            )
