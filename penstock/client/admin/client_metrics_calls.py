"""The calls of Admin for subscriptions to the metrics of Kafka's clients (KIP-714), as its faces have them.

A subscription is a configuration by a name. It is there as long as one of its keys is set. Not here: which keys there
are, which the controller knows, and how configurations are asked for and changed (configs.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.client.admin import configs
from penstock.client.admin.admin_core import AdminCore
from penstock.messages.configs import ConfigEntry, ConfigResource

RESOURCE: Final = "client-metrics"
_EXAMPLE: Final = '{"metrics": "org.apache.kafka.producer.", "interval.ms": 60000}'


class ClientMetricsCalls:
    """The calls about subscriptions, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def describe_client_metrics(self, name: str) -> dict[str, ConfigEntry]:
        """Every key of a subscription to the metrics of Kafka's clients; the defaults where there is none."""
        resource = _resource(name)
        return await configs.describe_by_any(self._core.cluster, resource, await self._core.begin())

    async def alter_client_metrics(self, name: str, changes: Mapping[str, Any], *, validate_only: bool = False) -> None:
        """Sets keys of a subscription: `metrics`, `interval.ms`, `match`; None deletes one, and the last one the
        subscription. Returns when every broker in service has heard of it."""
        resource = _resource(name)
        wanted = configs.checked_changes(_EXAMPLE, changes, None, None)
        await configs.alter(self._core.cluster, resource, wanted, await self._core.begin(), validate_only=validate_only)


def _resource(name: str) -> ConfigResource:
    if not isinstance(name, str):
        raise TypeError(f"a subscription's name must be a str, not {type(name).__name__}")
    return ConfigResource(RESOURCE, name)
