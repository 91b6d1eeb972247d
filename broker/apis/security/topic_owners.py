"""Tells the controller whose share of the cluster's partitions a request counts to, whatever its client has sent.

Where there is no authorizer nobody has a share: there everybody may delete every topic. Not here: who has one
(`broker/authorization/gatekeeper.py`), and how much it is (`metadata/controller/topics/owners.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from broker.apis.router import Handle
from broker.network.request_channel import Caller, Request
from penstock.messages.client_apis import CREATE_PARTITIONS, CREATE_TOPICS

_WITH_PRINCIPAL: Final = (CREATE_TOPICS.name, CREATE_PARTITIONS.name)


def with_owners(handlers: Mapping[str, Handle], share_holder: Callable[[Caller], str] | None) -> dict[str, Handle]:
    """The handlers by name, where those that make partitions get the caller's principal with the request.
    `share_holder` gives it, or "" for a caller without a share; None: no caller has one."""

    def of(handle: Handle) -> Handle:
        def told(request: Request, body: Any) -> None:
            principal = "" if share_holder is None else share_holder(request.caller)
            handle(request, body if body.principal == principal else replace(body, principal=principal))

        return told

    return {**handlers, **{name: of(handlers[name]) for name in _WITH_PRINCIPAL}}
