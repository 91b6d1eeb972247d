"""A call that removes ACLs is over when the brokers have heard of it, also when an earlier attempt has removed them;
and the question whether ACLs may be made at all."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.admin.security import acl_calls
from penstock.client.admin.security.acl_calls import AclCalls
from penstock.errors import ClusterAuthorizationFailedError, InvalidRequestError, SecurityDisabledError
from penstock.messages.security.acls import (
    AclDeletion,
    AclFilter,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsResponse,
)

DEADLINE_MS = 4_000


def heard_of(monkeypatch: pytest.MonkeyPatch, answer: DeleteAclsResponse) -> list[int]:
    """The offsets that were waited for when the cluster gave this answer."""
    waited: list[int] = []

    async def change(*_: Any) -> DeleteAclsResponse:
        return answer

    async def wait_heard(_: object, offset: int, deadline_ms: int) -> None:
        assert deadline_ms == DEADLINE_MS
        waited.append(offset)

    async def begin() -> int:
        return DEADLINE_MS

    monkeypatch.setattr(acl_calls, "change", change)
    monkeypatch.setattr(acl_calls, "wait_heard", wait_heard)
    core = cast(Any, SimpleNamespace(cluster=None, begin=begin))
    try:
        assert asyncio.run(AclCalls(core).delete_acls([AclFilter()])) == ()
    except InvalidRequestError:
        assert any(one.error is not None for one in answer.results)
    return waited


def test_a_removal_that_finds_none_waits_too_for_an_attempt_before_may_have_removed_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert heard_of(monkeypatch, DeleteAclsResponse((AclDeletion(),), 7)) == [7]


def test_a_removal_that_was_refused_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = AclDeletion(error=InvalidRequestError("a filter of no kind"))
    assert heard_of(monkeypatch, DeleteAclsResponse((refused,), 7)) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (CreateAclsResponse(()), None),
        (SecurityDisabledError("no authorizer"), None),
        (ClusterAuthorizationFailedError("Alter on the cluster"), ClusterAuthorizationFailedError),
    ],
)
def test_the_right_to_change_users_and_acls_is_asked_for_by_a_request_that_makes_nothing(
    monkeypatch: pytest.MonkeyPatch, answer: Any, expected: type[Exception] | None
) -> None:
    asked: list[Any] = []

    async def change(cluster: object, api: object, request: Any, deadline_ms: int) -> Any:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def begin() -> int:
        return DEADLINE_MS

    monkeypatch.setattr(acl_calls, "change", change)
    calls = AclCalls(cast(Any, SimpleNamespace(cluster=None, begin=begin)))
    with pytest.raises(expected) if expected else nullcontext():
        asyncio.run(calls.check_may_alter_cluster())
    assert asked == [CreateAclsRequest(())]
