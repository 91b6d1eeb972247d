"""The subscription of one client: all of the operator's that are for it, as one (KIP-714). Pure.

The metrics are those of all that match, and the interval is the shortest of theirs. The id says both, so brokers give
the same id without asking each other, and a change of either gives another. Not here: the table of keys
(metadata/client_metrics.py).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from metadata.client_metrics import EVERY_METRIC, INTERVAL_MS_DEFAULT, MetricsSubscription, subscription_of
from metadata.image import MetadataImage
from metadata.records import CLIENT_METRICS_RESOURCE
from penstock.errors import InvalidConfigError

_log = logging.getLogger(__name__)

METRICS_MAX: Final = 1_000
"""Names in the answer to one client."""
ID_MASK: Final = 0x7FFF_FFFF


class Offer(NamedTuple):
    """The metrics that a client is asked for, as beginnings of names. Without any the id is 0."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]

    def wants(self, metric: str) -> bool:
        return self.metrics == (EVERY_METRIC,) or metric.startswith(self.metrics)


NOTHING: Final = Offer(0, INTERVAL_MS_DEFAULT, ())


class Subscriptions:
    """All of the metadata, parsed once for each change."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._parsed_of: object = None
        self._subscriptions: tuple[MetricsSubscription, ...] = ()

    def offer(self, client: Mapping[str, str]) -> Offer:
        """The offer to a client with these attributes."""
        found = [one for one in self._all() if one.metrics and one.is_for(client)]
        if not found:
            return NOTHING
        names = {name for one in found for name in one.metrics}
        metrics = (EVERY_METRIC,) if EVERY_METRIC in names else tuple(sorted(names)[:METRICS_MAX])
        interval_ms = min(one.interval_ms for one in found)
        text = "\n".join((str(interval_ms), *metrics))
        return Offer(zlib.crc32(text.encode()) & ID_MASK or 1, interval_ms, metrics)

    def _all(self) -> tuple[MetricsSubscription, ...]:
        configs = self._image().configs
        if configs is not self._parsed_of:
            self._parsed_of, found = configs, []
            for resource, texts in configs.items():
                if resource.resource_type == CLIENT_METRICS_RESOURCE:
                    try:
                        found.append(subscription_of(texts))
                    except InvalidConfigError as error:  # of a later release, which knows more
                        _log.warning("the client metrics %r are not asked for: %s", resource.resource_name, error)
            self._subscriptions = tuple(found)
        return self._subscriptions

    def __repr__(self) -> str:
        return f"Subscriptions({len(self._subscriptions)} parsed)"
