"""Clients that push their metrics: who may push now, and what each has pushed (KIP-714).

A client asks for its subscription, and pushes once in its interval. Each has an id of its own, which this broker gives
it, or another one gave it. A limited number of clients has a place, with a share for each party (name_places.py): a
client without one is asked for nothing, and asks again after its interval. An id is one of its party: no other can push
in its name. A client that is silent for two intervals is shown no longer, and its place is free.

Pure but for the clock it is given. Not here: Kafka's messages (broker/kafka/apis/telemetry.py), and how metrics of the
page are made (broker/metrics/listener_readings.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from broker.network.client_names import NAME_CHARS_MAX
from broker.network.name_places import NamePlaces
from broker.network.telemetry.client_series import ClientSeries, Series
from broker.network.telemetry.otlp import Point
from broker.network.telemetry.subscriptions import NOTHING, Offer, Subscriptions
from metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.clock import Clock, ManualClock
from penstock.errors import (
    ApiError,
    InvalidRecordError,
    InvalidRequestError,
    InvariantViolation,
    ResourceExhaustedError,
    TelemetryTooLargeError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from penstock.ids import Ids
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, measured

CLIENTS_MAX: Final = 100
"""Clients with series of their own; one party alone has half of them."""
TELEMETRY_MAX_BYTES: Final = 1 << 20
"""The largest push, packed; Kafka's `telemetry.max.bytes`."""
UNPACKED_MAX_BYTES: Final = 4 * TELEMETRY_MAX_BYTES
"""The largest one that is unpacked: names repeat, and pack well."""
EARLY: Final = 0.9
"""A client may be a tenth of its interval early: the ways of its pushes are not of one length."""
SILENT_INTERVALS: Final = 2
REFUSALS: Final = tuple(
    error.kafka_name
    for error in (
        InvalidRequestError,
        InvalidRecordError,
        ResourceExhaustedError,
        TelemetryTooLargeError,
        UnknownSubscriptionIdError,
        UnsupportedCompressionTypeError,
    )
)
"""The names of the errors that there can be."""
RESERVED_IDS: Final = frozenset(("", "AAAAAAAAAAAAAAAAAAAAAQ"))
"""The uuids 0 and 1, which Kafka keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryClient:
    """A client, as its connection and its request tell it."""

    client_id: str
    software_name: str
    software_version: str
    host: str
    port: int
    party: str

    def attributes(self, instance_id: str) -> Mapping[str, str]:
        """The texts that subscriptions match."""
        return {
            "client_instance_id": instance_id,
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.host,
            "client_source_port": str(self.port),
        }


class _Key(NamedTuple):
    party: str
    instance_id: str


class Instance:
    """One client with a place."""

    def __init__(self, client: TelemetryClient, offer: Offer, now_ms: int) -> None:
        self.client, self.offer = client, offer
        self.asked_ms: int | None = None
        self.pushed_ms: int | None = None
        self.heard_ms = now_ms
        self.has_asked = False
        """It has not pushed since: the first push comes when the client likes."""
        self.may_ask = False
        """The last push was refused for a reason that a new subscription mends."""
        self.is_over = False
        """The client has said that it ends."""
        self.series = ClientSeries()

    def is_silent(self, now_ms: int) -> bool:
        return now_ms - self.heard_ms > SILENT_INTERVALS * self.offer.interval_ms

    def is_shown(self, now_ms: int) -> bool:
        return self.pushed_ms is not None and not self.is_silent(now_ms)

    def is_early(self, since_ms: int | None, now_ms: int) -> bool:
        return since_ms is not None and now_ms - since_ms < EARLY * self.offer.interval_ms

    def __repr__(self) -> str:
        return f"Instance({self.client.client_id!r}, {self.series!r})"


class Shown(NamedTuple):
    """One client on the page of metrics."""

    client_id: str
    instance_id: str
    software: str
    values: Mapping[Series, float]


@measured
class TelemetryStatistics:
    """Counts since the start of the node."""

    clients: int = gauge("penstock_client_telemetry_clients", "Clients that push their metrics to this broker now.")
    subscriptions: int = counter(
        "penstock_client_telemetry_subscriptions", "Answers that told a client which metrics it shall push, or none."
    )
    pushes: int = counter("penstock_client_telemetry_pushes", "Pushes of metrics by clients that were taken.")
    points: int = counter("penstock_client_telemetry_points", "Numbers that these pushes had.")
    dropped: int = counter(
        "penstock_client_telemetry_points_dropped",
        "Numbers that are not shown: over the limits of a client, nobody asked for them, or they are none.",
    )
    without_place: int = counter(
        "penstock_client_telemetry_without_place",
        f"Questions of clients that are asked for nothing, because {CLIENTS_MAX} others push, or half of them of one"
        " user.",
    )


class ClientTelemetry:
    """All of a node. Changed on the event loop."""

    def __init__(self, image: Callable[[], MetadataImage], clock: Clock, ids: Ids) -> None:
        self._subscriptions, self._clock, self._ids = Subscriptions(image), clock, ids
        self._instances: dict[_Key, Instance] = {}
        self._places: NamePlaces[_Key] = NamePlaces(CLIENTS_MAX, self._is_idle)
        self._counts = Counter[str]()
        self._refused: Counter[str] = Counter()

    def subscribe(self, instance_id: str, client: TelemetryClient) -> tuple[str, Offer]:
        """The id of a client, which is new if it has none, and its subscription. ResourceExhaustedError if it asks more
        often than it is to push."""
        now_ms = self._clock.now_ms()
        if instance_id in RESERVED_IDS - {""}:
            raise InvalidRequestError(f"the client instance id {instance_id} is reserved")
        instance_id = instance_id or self._ids.new_id()
        key = _Key(client.party, instance_id)
        offer = self._subscriptions.offer(client.attributes(instance_id))
        self._counts["subscriptions"] += 1
        known = self._instances.get(key)
        if known is not None and known.offer == offer and not known.may_ask:
            last_ms = max((at for at in (known.asked_ms, known.pushed_ms) if at is not None), default=None)
            if known.is_early(last_ms, now_ms):
                raise ResourceExhaustedError(f"the subscription lasts {offer.interval_ms} ms; ask again after it")
        instance = self._place(key, client, offer, now_ms) if offer != NOTHING else None
        if instance is None:
            return instance_id, NOTHING
        instance.offer, instance.asked_ms, instance.heard_ms = offer, now_ms, now_ms
        instance.has_asked, instance.may_ask = True, False
        return instance_id, offer

    def begin_push(self, instance_id: str, client: TelemetryClient, subscription_id: int, *, is_last: bool) -> Instance:
        """The client whose push may be read now; raises if it may not."""
        now_ms = self._clock.now_ms()
        if instance_id in RESERVED_IDS:
            raise InvalidRequestError("a push needs the client instance id that a broker gave: ask for a subscription")
        key = _Key(client.party, instance_id)
        offer = self._subscriptions.offer(client.attributes(instance_id))
        instance = self._place(key, client, offer, now_ms) if offer != NOTHING else self._instances.get(key)
        if instance is None:
            if offer == NOTHING:
                raise UnknownSubscriptionIdError("nobody asks this client for metrics now")
            raise ResourceExhaustedError("too many clients push metrics to this broker")
        if instance.is_over:
            raise InvalidRequestError("the client has said before that this push was its last one")
        if not is_last and not instance.has_asked and instance.is_early(instance.pushed_ms, now_ms):
            raise ResourceExhaustedError(f"a push is due every {instance.offer.interval_ms} ms")
        instance.pushed_ms = instance.heard_ms = now_ms
        instance.has_asked = False
        if subscription_id != offer.subscription_id:
            instance.may_ask = True
            raise UnknownSubscriptionIdError(
                f"the subscription {subscription_id} is not the client's now: ask for it again"
            )
        instance.is_over = is_last
        return instance

    def _place(self, key: _Key, client: TelemetryClient, offer: Offer, now_ms: int) -> Instance | None:
        known = self._instances.get(key)
        if known is not None:
            return known
        if not self._places.take(key, key.party, self._instances.__delitem__):
            self._counts["without_place"] += 1
            return None
        client = replace(client, client_id=client.client_id[:NAME_CHARS_MAX])
        made = self._instances[key] = Instance(client, offer, now_ms)
        return made

    def _is_idle(self, key: _Key) -> bool:
        instance = self._instances[key]
        return instance.is_over or instance.is_silent(self._clock.now_ms())

    def note(self, instance: Instance, point: Point) -> None:
        """Keeps a point of a push, if somebody asks for it and there is a place."""
        is_kept = instance.offer.wants(point.metric) and instance.series.note(point)
        self._counts["points"] += 1
        self._counts["dropped"] += not is_kept

    def pushed(self) -> None:
        """A push was read to its end."""
        self._counts["pushes"] += 1

    def refused(self, error: ApiError, instance: Instance | None = None) -> None:
        """A push, or a question, was refused."""
        self._refused[error.kafka_name] += 1
        if instance is not None:
            instance.may_ask = True

    def statistics(self) -> TelemetryStatistics:
        """May be called in any thread."""
        now_ms, counts = self._clock.now_ms(), self._counts
        clients = sum(one.is_shown(now_ms) for one in tuple(self._instances.values()))
        numbers = (counts[name] for name in ("subscriptions", "pushes", "points", "dropped", "without_place"))
        return TelemetryStatistics(clients, *numbers)

    def refusals(self) -> Mapping[str, int]:
        """The refused pushes and questions by the name of their error."""
        return dict(self._refused)

    def shown(self) -> list[Shown]:
        """The clients that have pushed of late; may be called in any thread."""
        now_ms = self._clock.now_ms()
        return [
            Shown(
                one.client.client_id,
                key.instance_id,
                f"{one.client.software_name} {one.client.software_version}".strip(),
                one.series.statistics(),
            )
            for key, one in tuple(self._instances.items())
            if one.is_shown(now_ms)
        ]

    def __repr__(self) -> str:
        return f"ClientTelemetry({len(self._instances)} clients)"


class _NoIds:
    """The ids of a listener without a node, at which nobody asks for one."""

    def new_id(self) -> str:
        raise InvariantViolation("a client asks for an id where there is no node")


def no_telemetry() -> ClientTelemetry:
    """The telemetry of a listener without a node: no client is asked for anything."""
    return ClientTelemetry(lambda: EMPTY_IMAGE, ManualClock(), _NoIds())
