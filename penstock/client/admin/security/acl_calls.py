"""The calls of Admin about ACLs, as its faces have them. Not here: what follows from ACLs (acls.py)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.changes import ask, change
from penstock.client.admin.configs import wait_heard
from penstock.client.admin.security.acls import checked_acls, checked_filters
from penstock.errors import ApiError, SecurityDisabledError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security.acl_apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.messages.security.acls import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)


class AclCalls:
    """The calls about ACLs, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def create_acls(self, acls: Sequence[AclBinding]) -> dict[AclBinding, ApiError | None]:
        """Makes ACLs. The result for each: None, also for one that there was already, or why it was not made.

        Returns when every broker in service has heard of it. SecurityDisabledError without an authorizer.
        """
        wanted = checked_acls(acls)
        deadline_ms = await self._core.begin()
        found: dict[AclBinding, ApiError | None] = {}
        offset = -1
        for at in range(0, len(wanted), NAMES_MAX):
            some = wanted[at : at + NAMES_MAX]
            answer = await change(self._core.cluster, CREATE_ACLS, CreateAclsRequest(some), deadline_ms)
            found |= {acl: one.error for acl, one in zip(some, answer.results, strict=True)}
            offset = max(offset, answer.metadata_offset)
        if None in found.values():
            await wait_heard(self._core.cluster, offset, deadline_ms)
        return found

    async def check_may_alter_cluster(self) -> None:
        """Raises ClusterAuthorizationFailedError for a caller that may not change users and ACLs, for which it needs
        ALTER on the cluster. It asks by a request that makes nothing. Without an authorizer everybody may.
        """
        deadline_ms = await self._core.begin()
        try:
            await change(self._core.cluster, CREATE_ACLS, CreateAclsRequest(()), deadline_ms)
        except SecurityDisabledError:
            return

    async def delete_acls(self, filters: Sequence[AclFilter]) -> tuple[AclBinding, ...]:
        """Removes every ACL that one of the filters finds, and tells which. A filter that the cluster refuses raises
        its error; what the others found is removed all the same. If an answer was lost on its way, the request was sent
        again, and what it removed the first time is not among what it tells.

        Returns when every broker in service has heard of it.
        """
        wanted = checked_filters(filters)
        if len(wanted) > NAMES_MAX:
            raise ValueError(f"filters has {len(wanted)} filters; give {NAMES_MAX} at a time")
        deadline_ms = await self._core.begin()
        answer = await change(self._core.cluster, DELETE_ACLS, DeleteAclsRequest(wanted), deadline_ms)
        if any(one.error is None for one in answer.results):  # found none: perhaps an attempt before removed them
            await wait_heard(self._core.cluster, answer.metadata_offset, deadline_ms)
        for one in answer.results:
            if one.error is not None:
                raise one.error
        return tuple(acl for one in answer.results for acl in one.acls)

    async def describe_acls(self, filter: AclFilter | None = None) -> tuple[AclBinding, ...]:
        """The ACLs that the filter finds, or all, as one broker has them."""
        if filter is not None:
            checked_filters([filter])
        deadline_ms = await self._core.begin()
        answer = await ask(self._core.cluster, DESCRIBE_ACLS, DescribeAclsRequest(filter), deadline_ms)
        return answer.acls
