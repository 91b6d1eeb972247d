"""Counts refusals, and tells of them in lines of the audit log.

    {"outcome":"refused","principal":"User:bob","host":"10.0.0.7","port":50412,"listener":"BROKER","api":"Produce",
     "operation":"Write","resource":"topic","name":"orders"}

There is one line for each principal, API and kind of right in a time. Not here: the decision to refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from broker.audit.audit_log import AuditKind, AuditLog
from broker.audit.audited_requests import from_where
from broker.audit.shown import cut
from broker.network.request_channel import Caller, Request
from penstock.messages.security.acls import Need, ResourceType
from penstock.metric_fields import counter, gauge, measured

REFUSED: Final = "Rights that requests lacked, by the kind of resource."


@measured
class AuthorizationStatistics:
    """The counts of refusals since the node's start."""

    acls: int = gauge("penstock_acls", "ACLs in this node's metadata.")
    topics: int = counter("penstock_authorization_refusals", REFUSED, resource="topic")
    groups: int = counter("penstock_authorization_refusals", REFUSED, resource="group")
    cluster: int = counter("penstock_authorization_refusals", REFUSED, resource="cluster")
    transactional_ids: int = counter("penstock_authorization_refusals", REFUSED, resource="transactional id")


NO_AUTHORIZER: Final = AuthorizationStatistics(0, 0, 0, 0, 0)


class Refusals:
    """The refusals of one node."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self.counts: Counter[ResourceType] = Counter()

    def note(
        self, caller: Caller, api: str, refused: Sequence[Need], more_refused: int = 0, request: Request | None = None
    ) -> None:
        """Counts the refusals of one request. `more_refused` is the number of further ones, of the kind of the last."""
        for need in refused:
            self.counts[need.resource_type] += 1
            self._tell(caller, api, need, request)
        if more_refused:
            self.counts[refused[-1].resource_type] += more_refused

    def _tell(self, caller: Caller, api: str, need: Need, request: Request | None) -> None:
        def facts() -> dict[str, object]:
            numbered = (request.client_id, request.correlation_id) if request is not None else ("", None)
            return {
                **from_where(caller, *numbered),
                "api": api,
                "operation": need.operation.value,
                "resource": need.resource_type.value,
                "name": cut(need.name),
            }

        subject = caller.principal, api, need.operation, need.resource_type
        self._log.bounded(AuditKind.REFUSAL, "refused", subject, facts)

    def statistics(self, acls: int) -> AuthorizationStatistics:
        counts = self.counts
        return AuthorizationStatistics(
            acls,
            counts[ResourceType.TOPIC],
            counts[ResourceType.GROUP],
            counts[ResourceType.CLUSTER],
            counts[ResourceType.TRANSACTIONAL_ID],
        )

    def __repr__(self) -> str:
        return f"Refusals({self.counts.total()} noted)"
