"""Makes the leaders' way to the coordinators of transactions. Stopped BEFORE the doors close: who waits is answered."""

from __future__ import annotations

from collections.abc import Callable

from broker.config.node_config import NodeConfig
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.node.environment import Environment
from broker.node.rooms.quorum import QuorumParts
from broker.transactions.verification.ask_coordinator import AskCoordinator, ImageCoordinators
from broker.transactions.verification.verifier import Verifier
from metadata.image import MetadataImage
from penstock.backoff import Backoff

AGAIN_MS, AGAIN_MS_MAX = 2, 1_000
"""Between two attempts: a transaction is ended within a few milliseconds, and the next one may begin then."""


def make_verifier(
    config: NodeConfig,
    environment: Environment,
    quorum: QuorumParts,
    own_coordinator: Callable[[Request], None],
    on_fatal: Callable[[BaseException], None],
) -> Verifier:
    """`own_coordinator` handles AddPartitionsToTxn here."""

    def image() -> MetadataImage:
        return quorum.loader.image

    ask = AskCoordinator(
        config.node_id,
        quorum.peers.call_broker,
        own_coordinator,
        FailedRequests(on_fatal).fail,
        environment.clock.now_ns,
    )
    return Verifier(ImageCoordinators(image), ask, Backoff(AGAIN_MS, AGAIN_MS_MAX, environment.random), on_fatal)
