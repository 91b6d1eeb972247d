"""The administrator of a secured cluster: makes and removes ACLs of guests, and gives them other passwords.

It is a super user. The oracle is told of each change before it is asked for, and again when it is acked. A change with
an unknown outcome may still come at any time: what it is about is left alone from then on.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from penstock import AsyncAdmin
from penstock.client.admin.security.users import UserScramCredentialDeletion, UserScramCredentialUpsertion
from penstock.errors import ApiError, PenstockError
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    EVERY_USER,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.simulation.cluster.security.oracle import GUEST_HOST

if TYPE_CHECKING:
    from tests.simulation.cluster.security.secured import Secured

TOPICS = ("guest-0", "guest-1")
PATTERNS = (
    *((topic, PatternType.LITERAL) for topic in TOPICS),
    ("guest-", PatternType.PREFIXED),
    ("guest-0", PatternType.PREFIXED),
    ("gues", PatternType.PREFIXED),
    (WILDCARD, PatternType.LITERAL),
)
OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL)
DENY_SHARE, OTHER_HOST_SHARE, OF_ALL_SHARE, REMOVE_SHARE, USERS_SHARE, DELETE_SHARE = 0.2, 0.15, 0.1, 0.4, 0.2, 0.3
AT_ONCE_MAX = 3
RETRY_SECONDS = 0.3


def rights_of_workers(principal: str) -> list[AclBinding]:
    """Everything but the rights of nodes."""
    resources = (
        (ResourceType.TOPIC, WILDCARD),
        (ResourceType.GROUP, WILDCARD),
        (ResourceType.TRANSACTIONAL_ID, WILDCARD),
        (ResourceType.CLUSTER, CLUSTER_NAME),
    )
    return [AclBinding(kind, name, principal, Operation.ALL) for kind, name in resources]


class Registrar:
    """See the module."""

    def __init__(self, secured: Secured) -> None:
        self._secured, self._oracle = secured, secured.oracle
        self._draw = random.Random(secured.clients.network.scheduler.draw.getrandbits(64))
        self._there: dict[AclBinding, None] = {}
        self._unsure: set[AclBinding | str] = set()

    async def begin(self, principal: str, copies: int) -> None:
        """Gives the principal all rights of clients, and makes the guests' topics."""
        async with self._admin() as admin:
            for acl, error in (await admin.create_acls(rights_of_workers(principal))).items():
                assert error is None, f"{acl}: {error}"
                self._oracle.acl_is(acl, is_there=True)
            for topic in TOPICS:
                await admin.create_topic(topic, 1, copies)

    def _admin(self) -> AsyncAdmin:
        return self._secured.clients.admin(4_000, **self._secured.root)

    async def work(self) -> None:
        """Until everything is mended."""
        clients, plan = self._secured.clients, self._secured.plan
        admin: AsyncAdmin | None = None
        while not clients.is_mended:
            await asyncio.sleep(plan.pause_s * (0.5 + self._draw.random()))
            try:
                if admin is None:
                    admin = self._admin()
                    await admin.start()
                await (self._change_user if self._draw.random() < USERS_SHARE else self._change_acls)(admin)
            except PenstockError as error:
                clients.refused[type(error).__name__] += 1
                if admin is not None:
                    await admin.close()
                admin = None
                await asyncio.sleep(RETRY_SECONDS)
        if admin is not None:
            await admin.close()

    # -- rights --------------------------------------------------------------------------------------------------------

    async def _change_acls(self, admin: AsyncAdmin) -> None:
        removes = bool(self._there) and self._draw.random() < REMOVE_SHARE
        known = list(self._there)
        count = self._draw.randint(1, AT_ONCE_MAX)
        drawn = self._draw.sample(known, min(count, len(known))) if removes else [self._drawn() for _ in range(count)]
        acls = [acl for acl in dict.fromkeys(drawn) if acl not in self._unsure]
        if not acls:
            return
        self._oracle.changes(acls)
        self._unsure.update(acls)
        if removes:
            gone = await admin.delete_acls([_filter_of(acl) for acl in acls])
            # The answer to a removal that was done may be lost; sent again, it finds nothing more to remove.
            assert set(gone) <= set(acls), f"asked to remove {acls}, and {gone} are gone"
            results: dict[AclBinding, ApiError | None] = dict.fromkeys(acls)
        else:
            results = await admin.create_acls(acls)
        for acl, error in results.items():
            if error is None:
                self._unsure.discard(acl)
                self._oracle.acl_is(acl, is_there=not removes)
                self._there.pop(acl, None)
                if not removes:
                    self._there[acl] = None

    def _drawn(self) -> AclBinding:
        draw = self._draw
        name, pattern = draw.choice(PATTERNS)
        is_denied = draw.random() < DENY_SHARE
        principal = f"User:{draw.choice(self._secured.guests)}"
        if not is_denied and draw.random() < OF_ALL_SHARE:
            principal = EVERY_USER
        host = draw.choice(("10.0.0.9", GUEST_HOST)) if draw.random() < 2 * OTHER_HOST_SHARE else WILDCARD
        permission = Permission.DENY if is_denied else Permission.ALLOW
        return AclBinding(ResourceType.TOPIC, name, principal, draw.choice(OPERATIONS), permission, host, pattern)

    # -- users ---------------------------------------------------------------------------------------------------------

    async def _change_user(self, admin: AsyncAdmin) -> None:
        user = self._draw.choice(self._secured.guests)
        if user in self._unsure:
            return
        passwords = self._secured.passwords[user]
        is_removed = bool(passwords) and passwords[-1] is not None and self._draw.random() < DELETE_SHARE
        password = None if is_removed else f"{user}-{len(passwords)}"
        passwords.append(password)
        self._oracle.changes(user=user)
        self._unsure.add(user)
        change = UserScramCredentialDeletion(user) if password is None else UserScramCredentialUpsertion(user, password)
        error = (await admin.alter_user_scram_credentials([change]))[user]
        if error is None:
            self._unsure.discard(user)
            self._oracle.password_is(user, password)


def _filter_of(acl: AclBinding) -> AclFilter:
    return AclFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )
