"""Counts the changes of topics that clients ask for, for their quotas (KIP-599).

They count when the authorizer has let them through, whether the controller makes them or not. Not here: how many they
are, and who waits how long (`broker/quotas/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.apis.router import Handle
from broker.network.request_channel import Request
from broker.quotas.partition_changes import COUNTS, Count
from broker.quotas.request_quotas import RequestQuotas
from metadata.image import MetadataImage


def charged(
    handlers: Mapping[str, Handle], quotas: RequestQuotas, image: Callable[[], MetadataImage]
) -> dict[str, Handle]:
    """The handlers by name, where those of changes count first."""

    def of(handle: Handle, count: Count) -> Handle:
        def counted(request: Request, body: Any) -> None:
            if quotas.is_active:
                quotas.changed(request, count(body, image()))
            handle(request, body)

        return counted

    return {**handlers, **{name: of(handlers[name], count) for name, count in COUNTS.items()}}
