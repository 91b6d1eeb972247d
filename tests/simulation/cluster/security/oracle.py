"""Judges what a secured cluster did: rights (I82), acked changes of them (I83), log-ins (I84) and senders (I85).

A broker judges by its own metadata. So an answer must be one that the ACLs, or the credential, allow which that broker
had while it was asked; most of the time that is one answer. `allows` is written for this once more, in the plainest
way. What was acked is held against the newest metadata of the cluster. Not here: who asks (guest.py, registrar.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.scram import ScramImage
from penstock.messages.security.acls import (
    EVERY_USER,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.sasl.credentials import ScramCredential

GUEST_HOST = "10.0.0.1"
"""That of all clients (rpc.py)."""
DESCRIBING = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}


class _Seen(NamedTuple):
    since_s: float
    acls: Mapping[str, AclBinding]
    scram: ScramImage


@dataclass
class SecurityOracle:
    """See the module. `report` is told of each violation."""

    report: Callable[[str], object]
    newest: MetadataImage = EMPTY_IMAGE
    counts: dict[str, int] = field(default_factory=dict)
    """How often each kind of answer was judged."""
    _images: dict[int, list[_Seen]] = field(default_factory=dict)
    """By broker: its metadata, as far as it is judged by, in order."""
    _acls: dict[AclBinding, bool] = field(default_factory=dict)
    """The ACLs of which it is certain whether they are there."""
    _passwords: dict[str, str | None] = field(default_factory=dict)
    """The same of users; None: there is no such user."""

    # -- what nodes know -----------------------------------------------------------------------------------------------

    def seen(self, node_id: int, image: MetadataImage, newest: MetadataImage, now_s: float) -> None:
        """A node has a new image; `newest` is that of all nodes."""
        images = self._images.setdefault(node_id, [])
        if not images or images[-1].acls is not image.acls or images[-1].scram is not image.scram:
            images.append(_Seen(now_s, image.acls, image.scram))
        has_changed = newest.acls is not self.newest.acls or newest.scram is not self.newest.scram
        self.newest = newest
        if has_changed:
            self._check_kept()

    def _during(self, node_id: int, since_s: float) -> list[_Seen]:
        images = self._images.get(node_id, [])
        first = max((at for at, seen in enumerate(images) if seen.since_s < since_s), default=0)
        return images[first:]

    # -- answers -------------------------------------------------------------------------------------------------------

    def answered(
        self, node_id: int, principal: str, operation: Operation, topic: str, since_s: float, is_allowed: bool
    ) -> None:
        """I82: a broker that was asked at `since_s` has just answered so."""
        self._count("allowed" if is_allowed else "refused")
        seen = self._during(node_id, since_s)
        if not any(allows(each.acls.values(), principal, operation, topic) is is_allowed for each in seen):
            did = "allowed" if is_allowed else "refused"
            rights = sorted(str(acl) for acl in seen[-1].acls.values() if acl.principal in (principal, EVERY_USER))
            self.report(f"I82: node {node_id} {did} {principal} {operation} on {topic}; it has {rights}")

    def logged_in(self, node_id: int, user: str, password: str, since_s: float, is_in: bool) -> None:
        """I84: a broker with which a dialogue began at `since_s` has just let the user in, or refused the password."""
        self._count("let in" if is_in else "kept out")
        credentials = [each.scram.of_user(user) for each in self._during(node_id, since_s)]
        if not any(any(_fits(one, password) for one in found) is is_in for found in credentials):
            self.report(f"I84: node {node_id} has {'let in' if is_in else 'refused'} {user!r} with {password!r}")

    def replayed(self, node_id: int, what: str) -> None:
        """I84: a broker has answered a call by a connection that nobody has logged in."""
        self.report(f"I84: node {node_id} has answered {what}")

    def forged(self, node_id: int, what: str, answer: object) -> None:
        """I85: a node has taken a request in the name of another one than its sender."""
        self.report(f"I85: node {node_id} has answered {what} with {answer!r}")

    def count(self, what: str) -> None:
        """Something was refused that always must be."""
        self._count(what)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # -- changes -------------------------------------------------------------------------------------------------------

    def changes(self, acls: Iterable[AclBinding] = (), user: str | None = None) -> None:
        """Someone is about to be asked for a change of these: nothing is certain about them until it is acked."""
        for acl in acls:
            self._acls.pop(acl, None)
        if user is not None:
            self._passwords.pop(user, None)

    def acl_is(self, acl: AclBinding, is_there: bool) -> None:
        """I83: acked."""
        self._acls[acl] = is_there
        self._check_kept()

    def password_is(self, user: str, password: str | None) -> None:
        """I83: acked."""
        self._passwords[user] = password
        self._check_kept()

    def _check_kept(self) -> None:
        there = set(self.newest.acls.values())
        for acl, is_there in self._acls.items():
            if (acl in there) is not is_there:
                self.report(f"I83: acked as {'made' if is_there else 'removed'}, and it is not so: {acl}")
        for user, password in self._passwords.items():
            found = self.newest.scram.of_user(user)
            if bool(found) is not (password is not None) or not all(_fits(one, password or "") for one in found):
                self.report(f"I83: the password of {user!r} is not {password!r}, as was acked")


def allows(acls: Iterable[AclBinding], principal: str, operation: Operation, topic: str) -> bool:
    """The word of a set of ACLs about a client at GUEST_HOST, as docs/security.md tells it."""
    about = [acl for acl in acls if acl.principal in (principal, EVERY_USER) and _concerns(acl, topic)]
    asked = {operation, Operation.ALL}
    if any(acl.permission is Permission.DENY and acl.operation in asked for acl in about):
        return False
    implied = DESCRIBING if operation is Operation.DESCRIBE else set()
    return any(acl.permission is Permission.ALLOW and acl.operation in asked | implied for acl in about)


def _concerns(acl: AclBinding, topic: str) -> bool:
    if acl.resource_type is not ResourceType.TOPIC or acl.host not in (WILDCARD, GUEST_HOST):
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return topic.startswith(acl.resource_name)
    return acl.resource_name in (topic, WILDCARD)


@lru_cache(4_096)
def _fits(credential: ScramCredential, password: str) -> bool:
    return credential.is_of(password)
