"""The check of every request of clients, before a handler has it, for every listener (`apis/router.py` asks, and has
the other looks at rights).

Nodes are judged by their certificates at their own listeners, not here: what comes by the inter-broker listener, and
what this broker asks of itself, passes. Not here: rights (authorizer.py), and what each API needs (rules/).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from broker.audit.audit_log import AuditLog
from broker.authorization.authorizer import Authorizer, Rights
from broker.authorization.judge import Judge
from broker.authorization.refusals import AuthorizationStatistics, Refusals
from broker.authorization.rules.ruling import Rule
from broker.network.broker_calls import THIS_BROKER
from broker.network.request_channel import Caller, Request
from broker.network.request_ports import Visibility
from metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.errors import ApiError, ClusterAuthorizationFailedError, InvalidTopicError
from penstock.messages.security.acls import Operation, ResourceType
from penstock.topic_names import validate_topic_name
from penstock.types import ListenerType

NOT_FOR_CLIENTS: Final = "is not for clients; nodes ask it at their own listener, with their certificates"


class _PartRights:
    """The rights of one request's caller to topics, as they are now (`broker.network.request_ports.TopicRights`). A
    fetch session keeps those of its newest request."""

    __slots__ = ("_api", "_authorizer", "_caller", "_known", "_refusals")

    def __init__(self, authorizer: Authorizer, rights: Rights, caller: Caller, api: str, refusals: Refusals) -> None:
        self._authorizer, self._known, self._caller, self._api, self._refusals = (
            authorizer,
            rights,
            caller,
            api,
            refusals,
        )

    @property
    def _rights(self) -> Rights:
        self._known = self._authorizer.newest(self._known)
        return self._known

    @property
    def version(self) -> object:
        return self._rights.version

    def refusal(self, operation: Operation, topic: str) -> ApiError | None:
        rights = self._rights
        if rights.allows(operation, ResourceType.TOPIC, topic) or not _is_legal(topic):
            return None
        judge = Judge(rights, EMPTY_IMAGE)
        error = judge.refusal(operation, ResourceType.TOPIC, topic)
        self._refusals.note(self._caller, self._api, judge.refused)
        return error

    def visibility(self) -> Visibility:
        rights = self._rights

        def sees(topic: str) -> bool:
            return rights.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)

        return Visibility(rights.principal, rights.version, sees)


def _is_legal(name: str) -> bool:
    """A name that no topic has is refused as what it is. Kafka's protocol makes such names of unknown ids."""
    try:
        validate_topic_name(name)
    except InvalidTopicError:
        return False
    return True


class RequestAuthorizer:
    """The authorizer of one node with an authorizer."""

    def __init__(
        self,
        authorizer: Authorizer,
        image: Callable[[], MetadataImage],
        inter_broker_listener: str,
        audit: AuditLog,
        rules: Mapping[str, Rule],
        judged_in_parts: Collection[str],
    ) -> None:
        """`rules` are by the names of requests; one without is not for clients. The handlers of `judged_in_parts` judge
        each partition when they come to it (rules/records.py), and the topics of a group whose coordinator assigns
        (`broker/groups/consumer/visible_topics.py`)."""
        self._authorizer, self._image, self._inter_broker_listener = authorizer, image, inter_broker_listener
        self._refusals = Refusals(audit)
        self._rules, self._judged_in_parts = rules, judged_in_parts

    def passes(self, request: Request) -> bool:
        """The request goes on to its handler, with what is left of it; otherwise it was answered. Raises the error of
        one that is refused as a whole."""
        caller = request.caller
        if self._is_of_nodes(caller):
            return True
        rule = self._rules.get(request.api)
        if rule is None:
            raise ClusterAuthorizationFailedError(f"{request.api} {NOT_FOR_CLIENTS}")
        is_grpc = caller.listener_type is ListenerType.GRPC
        judge = Judge(self._rights(caller), self._image(), shows_configs=is_grpc)
        try:
            ruling = rule(judge, request.body)
        finally:
            if judge.refused:
                self._refusals.note(caller, request.api, judge.refused, judge.more_refused, request)
        if request.api in self._judged_in_parts:
            request.rights = _PartRights(self._authorizer, judge.rights, caller, request.api, self._refusals)
        if ruling.amend is not None:
            request.amend = self._amends(request, judge, ruling.amend)
        request.body = ruling.body
        if ruling.body is not None:
            return True
        request.complete(ruling.answer)
        return False

    def _amends(self, request: Request, judge: Judge, amend: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Amends the answer by the rights that count when it is made: the request may have waited for minutes."""

        def amended(answer: Any) -> Any:
            refused, more_refused = len(judge.refused), judge.more_refused
            judge.rights = self._authorizer.newest(judge.rights)
            try:
                return amend(answer)
            finally:
                if judge.refused[refused:]:
                    more = judge.more_refused - more_refused
                    self._refusals.note(request.caller, request.api, judge.refused[refused:], more, request)

        return amended

    def may_write(self, request: Request, topic: str) -> bool:
        """A look, which notes nothing: the handler judges the same partition again, and refuses it."""
        return self.may(request.caller, Operation.WRITE, ResourceType.TOPIC, topic)

    def share_holder(self, caller: Caller) -> str:
        """The principal whose share of the cluster's partitions limits the caller; "" if none does: it is a node's, or
        a super user's. Callers that have not proved who they are are one principal: an address owns no topic."""
        if self._is_of_nodes(caller):
            return ""
        rights = self._rights(caller)
        return "" if rights.is_super else rights.principal

    def _is_of_nodes(self, caller: Caller) -> bool:
        return caller.listener == self._inter_broker_listener or caller is THIS_BROKER

    # -- what listeners ask (`broker.network.listeners.Permissions`) ---------------------------------------------------

    def may(self, caller: Caller, operation: Operation, resource: ResourceType, name: str) -> bool:
        return self._is_of_nodes(caller) or self._rights(caller).allows(operation, resource, name)

    def may_any(self, caller: Caller, operation: Operation, resource: ResourceType) -> bool:
        return self._is_of_nodes(caller) or self._rights(caller).allows_any(operation, resource)

    def refusal(
        self, caller: Caller, api: str, operation: Operation, resource: ResourceType, name: str
    ) -> ApiError | None:
        """None if the caller may do this; noted otherwise."""
        judge = Judge(self._rights(caller), self._image())
        error = judge.refusal(operation, resource, name)
        if error is not None:
            self._refusals.note(caller, api, judge.refused)
        return error

    def statistics(self) -> AuthorizationStatistics:
        return self._refusals.statistics(len(self._image().acls))

    def _rights(self, caller: Caller) -> Rights:
        return self._authorizer.rights_of(caller.principal, caller.peer.host)

    def __repr__(self) -> str:
        return f"RequestAuthorizer({self._authorizer!r})"
