"""Decides who may ask at a listener, and from when on. An edge; it decides by values alone."""

from __future__ import annotations

from penstock.errors import InvalidRequestError, NetworkError
from penstock.types import CONSUMER_REPLICA_ID

NOT_OPEN = "this node has not caught up with the metadata yet; ask another one"


class Gate:
    """That of one listener."""

    def __init__(self, listener: str, inter_broker_listener: str) -> None:
        """`listener` is its own name."""
        self.listener = listener
        self._inter_broker_listener = inter_broker_listener
        self._is_open = False

    def open(self) -> None:
        """Requests are taken from now on.

        Not before the node has caught up: until then it knows no topic, and would tell a client with an old address
        that its topic does not exist. (Kafka, too, enables request processing only then.)
        """
        self._is_open = True

    def must_be_open(self) -> None:
        if not self._is_open:
            raise NetworkError(NOT_OPEN)

    def check_asker(self, api: str, replica_id: int, is_clients: bool) -> None:
        """Replicas fetch at their own listener, and only they do."""
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
