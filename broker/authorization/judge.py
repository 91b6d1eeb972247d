"""The judgement of one request: its caller's rights, the typed errors of what is refused, and a note of each refusal.

An error names what its principal lacks, or that an ACL denies it, and no more: it is the same for a resource that there
is and one that there is not. What a caller only does not get to see is no refusal, and is not noted, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.authorization.authorizer import Rights
from broker.authorization.remedy import remedy, shown_by
from metadata.image import MetadataImage
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from penstock.messages.security.acls import CLUSTER_NAME, Need, Operation, ResourceType
from penstock.messages.transactions.atomic_batches import application_id, application_of_writer

ERRORS: Final[Mapping[ResourceType, type[ApiError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailedError,
    ResourceType.GROUP: GroupAuthorizationFailedError,
    ResourceType.CLUSTER: ClusterAuthorizationFailedError,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailedError,
}
IMPLIED_BY: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: "Read or Write",
    ResourceType.GROUP: "Read",
    ResourceType.TRANSACTIONAL_ID: "Write",
}
"""The rights by which a client usually has DESCRIBE. It asks for that first, and an error that named DESCRIBE alone
would be followed by one for the right that its work needs."""
NAME_SHOWN: Final = 64
NOTED_MAX: Final = 100
"""Refusals of one request that are noted one by one."""


class Judge:
    """Judges one request."""

    __slots__ = ("_errors", "image", "more_refused", "refused", "rights", "shows_configs")

    def __init__(self, rights: Rights, image: MetadataImage, *, shows_configs: bool = True) -> None:
        """`shows_configs`: the caller's protocol tells the configuration of topics with their metadata. The answer of a
        request that waited is judged by newer `rights`."""
        self.rights, self.image, self.shows_configs = rights, image, shows_configs
        self.refused: list[Need] = []
        """The first of them; `more_refused` counts the others."""
        self.more_refused = 0
        self._errors: dict[Need, ApiError] = {}

    def may(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return self.rights.allows(operation, resource, _judged_name(resource, name))

    def may_any(self, operation: Operation, resource: ResourceType) -> bool:
        return self.rights.allows_any(operation, resource)

    def refusal(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> ApiError | None:
        """None if the caller may do this; noted otherwise."""
        if self.may(operation, resource, name):
            return None
        return self.refuse(Need(operation, resource, _judged_name(resource, name)))

    def require(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raises the refusal."""
        error = self.refusal(operation, resource, name)
        if error is not None:
            raise error

    def refuse(self, need: Need) -> ApiError:
        """The error of a right that the caller does not have; noted."""
        error = self._errors.get(need)
        if error is None:
            if len(self.refused) < NOTED_MAX:
                self.refused.append(need)
            else:
                self.more_refused += 1
            shown = need._replace(name=need.name[:NAME_SHOWN])
            implied_by = IMPLIED_BY.get(need.resource_type) if need.operation is Operation.DESCRIBE else None
            hint = f" ({implied_by} implies it)" if implied_by else ""
            if self.rights.denies(*need):
                way = f"an ACL denies it: `{shown_by(need)}` shows which"
            else:
                way = f"an administrator can allow it: `{remedy(self.rights.principal, need)}`"
            error = self._errors[need] = ERRORS[need.resource_type](
                f"{self.rights.principal} may not {shown}{hint}; {way}"
            )
        return error


def _judged_name(resource: ResourceType, name: str) -> str:
    """The writers of an atomic batch have ids of their own, which nobody can name beforehand: their right is that to
    the application's."""
    if resource is ResourceType.TRANSACTIONAL_ID:
        application = application_of_writer(name)
        if application is not None:
            return application_id(application)
    return name
