"""DescribeQuorum and DescribeFeatures: forwarded to the leader of the quorum. It alone knows every replica's log end,
and what every node supports.

Without a leader the answer is what this node knows by itself, and says so: an operator needs it just then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.apis.forwarding import ForwardedRequests
from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.network.request_channel import Request
from penstock.messages.admin_apis import DESCRIBE_QUORUM
from penstock.messages.feature_apis import DESCRIBE_FEATURES
from penstock.messages.features import DescribeFeaturesRequest, FeaturesInfo
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo
from penstock.messages.security.acls import Operation

LEADER_WAIT_MS = 2_000
"""The longest wait for the leader. A change of leader takes less, and a person waits for the answer."""


class DescribeQuorumApi:
    """Handles quorum descriptions."""

    def __init__(self, forwarded: ForwardedRequests, own_view: Callable[[], QuorumInfo]) -> None:
        self._forwarded = forwarded
        self._own_view = own_view

    def handle(self, request: Request, body: DescribeQuorumRequest) -> None:
        self._forwarded.ask(DESCRIBE_QUORUM, request, body, LEADER_WAIT_MS, self._own_view)


class DescribeFeaturesApi:
    """Handles descriptions of feature levels."""

    def __init__(self, forwarded: ForwardedRequests, own_features: Callable[[], FeaturesInfo]) -> None:
        self._forwarded = forwarded
        self._own_features = own_features

    def handle(self, request: Request, body: DescribeFeaturesRequest) -> None:
        self._forwarded.ask(DESCRIBE_FEATURES, request, body, LEADER_WAIT_MS, self._own_features)


SERVED: Final = (
    Served(
        api=DESCRIBE_FEATURES,
        rule=of_cluster(Operation.DESCRIBE),
        make=lambda parts: DescribeFeaturesApi(parts.forwarded, parts.own_features).handle,
    ),
    Served(
        api=DESCRIBE_QUORUM,
        rule=of_cluster(Operation.DESCRIBE),
        make=lambda parts: DescribeQuorumApi(parts.forwarded, parts.own_quorum_view).handle,
    ),
)
