"""A node for tests of plans: a controller, an image and the real handlers, without a request path or a network.

A plan goes through it by hand: each thing that it asks is answered by the handler of the API, or by what the test has
put into `answers`. The answer in Kafka's terms is encoded and decoded again, in the version that was asked in.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from broker.apis.cluster.describe_cluster import DescribeClusterApi
from broker.apis.cluster.metadata import MetadataApi
from broker.apis.cluster.topic_views import TopicViews
from broker.apis.describe_configs import DescribeConfigsApi
from broker.config.config import parse_config
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.dynamic_keys import BROKER_CONFIGS
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, MakePlan
from broker.kafka_codec.codec import decode, encode
from broker.network.client_names import ClientNames
from broker.network.request_channel import Caller, Request
from metadata.controller.config import ControllerConfig
from metadata.delta import MetadataDelta
from metadata.features import TABLE
from metadata.image import EMPTY_IMAGE
from penstock.errors import ApiError
from penstock.messages.api import ApiKind
from penstock.messages.apis import APIS
from penstock.messages.cluster import NodeStanding
from tests.support.kafka_rows import ADMIN, rows_over
from tests.support.machine import NOW_NS
from tests.support.received import as_received
from tests.support.sinks import CALLER, Sink
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

NODE = {
    "node.id": 1,
    "process.roles": ["broker", "controller"],
    "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193",
    "controller.quorum.voters": "1@127.0.0.1:9193",
    "log.dirs": "/nowhere/a",
}
WALL_MS = 1_795_000_000_000
STANDING = NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ())


class AdminNode:
    """Broker 1 of a cluster, whose controller is at hand."""

    def __init__(self, brokers: int = 1, controller_id: int = 1, **config: object) -> None:
        self.cluster = Cluster(brokers, ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS, broker_configs=BROKER_CONFIGS))
        self.config = parse_config({**NODE, **{key.replace("_", "."): value for key, value in config.items()}})
        self.voters = self.config.first_voters
        service = SimpleNamespace(
            cluster_id=CLUSTER_ID,
            image=lambda: self.cluster.image,
            voters=lambda: self.voters,
            features=TABLE,
            wall_ms=lambda: WALL_MS,
            names=ClientNames(),
            permissions=None,
        )
        self.parts = PlanParts(self.config, cast(Any, service))
        self.controller_id = controller_id
        self.asks: list[Ask] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}
        """By API, in place of the handler; one that raises an ApiError refuses the request as a whole."""
        self._views = TopicViews(1, lambda *_: "")
        self._rows = rows_over(self.parts, *ADMIN)

    def does(self, make: MakePlan, body: Any, version: int, listener: str = CALLER.listener) -> Any:
        """The answer to a client, or None; a request that fails as a whole raises its ApiError."""
        caller = Caller(CALLER.peer, listener)
        plan = make(Asked(version, caller), body)
        try:
            ask = next(plan)
            while True:
                if ask is PAUSE:
                    ask = next(plan)
                    continue
                self.asks.append(ask)
                try:
                    answer = self._answer(ask, caller)
                except ApiError as error:
                    ask = plan.throw(error)
                else:
                    ask = plan.send(answer)
        except StopIteration as end:
            return None if end.value is None else received(end.value, version)

    def call(self, key: int, body: Any, version: int) -> Any:
        """As `does`, by the table of APIs; with the row's answer to a request that fails as a whole."""
        row = next(row for row in self._rows if row.key == key)
        assert row.serves(version) and isinstance(body, row.request)
        body = received(body, version)
        try:
            answer = self.does(row.plan, body, version)
        except ApiError as error:
            failed = row.failed(Asked(version, CALLER), body, error) if row.failed else None
            answer = received(failed or row.response(error_code=error.code), version)
        assert isinstance(answer, row.response)
        return answer

    def _answer(self, ask: Ask, caller: Caller) -> Any:
        if ask.api in self.answers:
            return self.answers[ask.api](ask.body)
        api = APIS[ask.api]
        if api.kind is ApiKind.FORWARDED:
            return self.cluster.commit(self.cluster.controller.decide(ask.body, self.cluster.now_ms))
        request = Request(ask.api, ask.body, Sink(), caller, NOW_NS)
        self._handlers()[ask.api](request, ask.body)
        return as_received(request)

    def _handlers(self) -> dict[str, Callable[[Request, Any], None]]:
        def image() -> Any:
            return self.cluster.image

        def controller_id() -> int:
            return self.controller_id

        dynamic = DynamicBrokerConfig(self.config)
        dynamic.published(MetadataDelta.between(EMPTY_IMAGE, self.cluster.image), self.cluster.image)
        return {
            "Metadata": MetadataApi(CLUSTER_ID, image, controller_id, self._views).handle,
            "DescribeCluster": DescribeClusterApi(CLUSTER_ID, image, controller_id, lambda: (STANDING, ())).handle,
            "DescribeConfigs": DescribeConfigsApi(dynamic, image).handle,
        }


def received(message: Any, version: int) -> Any:
    """The message as the other side reads it in that version."""
    frame = b"".join(bytes(part) for part in encode(message, version))
    read, end = decode(type(message), version, memoryview(frame))
    assert end == len(frame)
    return read
