"""The calls of Admin about users, as its faces have them. Not here: what a change is (users.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.changes import ask, change
from penstock.client.admin.configs import wait_heard
from penstock.client.admin.security.users import (
    UserDescription,
    UserScramCredentialAlteration,
    checked_alterations,
    checked_users,
)
from penstock.errors import ApiError, ResourceNotFoundError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security.user_apis import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from penstock.messages.security.users import (
    AlterUserScramCredentialsRequest,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from penstock.sasl.credentials import SALT_BYTES


class UserCalls:
    """The calls about users and their SCRAM credentials, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def alter_user_scram_credentials(
        self, alterations: Sequence[UserScramCredentialAlteration]
    ) -> dict[str, ApiError | None]:
        """Sets and deletes passwords of users, each for one mechanism (KIP-554).

        The result for each user: None, or why nothing of it was changed. Returns when every broker in service has heard
        of it. Connections that are authenticated stay so until they end (`connections.max.reauth.ms`).
        """
        wanted = checked_alterations(alterations)
        if len(wanted) > NAMES_MAX:
            raise ValueError(f"alterations has {len(wanted)} changes; give {NAMES_MAX} at a time")
        deadline_ms = await self._core.begin()
        made: list[ScramDeletion | ScramUpsertion] = []
        for one in wanted:
            made.append(one.made(self._core.random_bytes(SALT_BYTES)))
            await asyncio.sleep(0)  # each takes some milliseconds, and the loop has other work
        request = AlterUserScramCredentialsRequest(
            tuple(one for one in made if isinstance(one, ScramDeletion)),
            tuple(one for one in made if isinstance(one, ScramUpsertion)),
        )
        answer = await change(self._core.cluster, ALTER_USER_SCRAM_CREDENTIALS, request, deadline_ms)
        results = {one.user: one.error for one in answer.users}
        if None in results.values():
            await wait_heard(self._core.cluster, answer.metadata_offset, deadline_ms)
        return results

    async def describe_user_scram_credentials(self, users: Sequence[str] | None = None) -> dict[str, UserDescription]:
        """The users that can log in with a password, and by which mechanisms; of these names, or all, by name. A name
        that no user has is left out."""
        wanted = checked_users(users)
        deadline_ms = await self._core.begin()
        found: list[DescribedUser] = []
        if wanted is not None:
            for first in range(0, len(wanted), NAMES_MAX):
                found += await self._page(wanted[first : first + NAMES_MAX], "", deadline_ms)
        else:
            while page := await self._page((), found[-1].user if found else "", deadline_ms):
                found += page
        for one in found:
            if one.error is not None and not isinstance(one.error, ResourceNotFoundError):
                raise one.error
        return {one.user: UserDescription.of(one) for one in found if one.error is None}

    async def _page(self, users: tuple[str, ...], after: str, deadline_ms: int) -> tuple[DescribedUser, ...]:
        request = DescribeUserScramCredentialsRequest(users, after)
        return (await ask(self._core.cluster, DESCRIBE_USER_SCRAM_CREDENTIALS, request, deadline_ms)).users
