"""Tells the controller whose share of the cluster's partitions a request counts to, whatever its client has sent.

Where there is no authorizer nobody has a share: there everybody may delete every topic. Not here: who has one
(`broker/authorization/request_authorizer.py`), and how much it is (`metadata/controller/topics/owners.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker.apis.router import Handle
from broker.network.request_channel import Caller, Request


def with_owner(handle: Handle, share_holder: Callable[[Caller], str] | None) -> Handle:
    """The handler of an API that makes partitions, which gets the caller's principal with the request. `share_holder`
    gives it, or "" for a caller without a share; None: no caller has one."""

    def with_principal(request: Request, body: Any) -> None:
        principal = "" if share_holder is None else share_holder(request.caller)
        handle(request, body if body.principal == principal else replace(body, principal=principal))

    return with_principal
