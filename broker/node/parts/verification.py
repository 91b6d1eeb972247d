"""Makes the leaders' way to the coordinators of transactions. Stopped BEFORE the listeners close: the requests that
wait are answered.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.network.broker_calls import CallBroker
from broker.node.environment import Environment
from broker.node.parts.quorum import QuorumParts
from broker.transactions.verification.image_coordinators import ImageCoordinators
from broker.transactions.verification.verifier import Verifier
from metadata.image import MetadataImage
from penstock.backoff import Backoff

AGAIN_MS, AGAIN_MS_MAX = 2, 1_000
"""The pause between two attempts: a transaction is ended within a few milliseconds, and the next one may begin then."""


def make_verifier(
    environment: Environment,
    quorum: QuorumParts,
    call_broker: CallBroker,
    on_fatal: Callable[[BaseException], None],
    *,
    is_enabled: bool,
) -> Verifier:
    """`call_broker` reaches this broker, too. `is_enabled`: see Verifier."""

    def image() -> MetadataImage:
        return quorum.loader.image

    backoff = Backoff(AGAIN_MS, AGAIN_MS_MAX, environment.random)
    return Verifier(ImageCoordinators(image), call_broker, backoff, on_fatal, is_enabled)
