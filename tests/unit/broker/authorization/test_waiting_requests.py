"""A request that waits is judged by the rights of the moment in which it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from broker.apis.served_apis import JUDGED_IN_PARTS, RULES
from broker.audit.audit_log import AuditLog
from broker.authorization.authorizer import Authorizer
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.network.request_channel import Request
from penstock.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from penstock.messages import offsets
from penstock.messages.groups import classic_protocol as classic
from penstock.messages.groups import listing
from penstock.messages.security.acls import AclBinding, Need, Operation, Permission, ResourceType
from tests.unit.broker.authorization.test_every_api import ANNA, HOST, IMAGE, SEEN, TABLE, TOPIC_ID, asked

READS_GROUP = Need(Operation.READ, ResourceType.GROUP, "g")
READS_TOPIC = Need(Operation.READ, ResourceType.TOPIC, "t")


class Acls:
    """The ACLs of a cluster, as they change."""

    def __init__(self, *needs: Need) -> None:
        self.now: dict[str, AclBinding] = {}
        self.set(*needs)
        self.guard = RequestAuthorizer(
            Authorizer(lambda: self.now), lambda: IMAGE, "INTERNAL", AuditLog(lambda: 0), RULES, JUDGED_IN_PARTS
        )

    def set(self, *needs: Need) -> None:
        self.now = {
            str(need): AclBinding(need.resource_type, need.name, ANNA, need.operation, Permission.ALLOW, HOST)
            for need in needs
        }

    def passed(self, api: str, body: Any) -> Request:
        request = asked(api, body)
        assert self.guard.passes(request)
        return request

    @property
    def refusals(self) -> int:
        return self.guard._refusals.counts.total()


ANSWERS = {"JoinGroup": classic.JoinGroupResponse("m"), "SyncGroup": classic.SyncGroupResponse(b"")}


@pytest.mark.parametrize("api", ANSWERS)
def test_a_member_that_lost_its_right_while_it_waited_for_others_is_refused(api: str) -> None:
    acls = Acls(READS_GROUP)
    request = acls.passed(api, TABLE[api].body)
    acls.set()
    request.complete(ANSWERS[api])
    assert isinstance(request.error, GroupAuthorizationFailedError) and request.response is None
    assert request.failures == (request.error,) and acls.refusals == 1


@pytest.mark.parametrize("api", ANSWERS)
def test_a_member_that_kept_its_right_gets_its_answer_though_acls_changed(api: str) -> None:
    acls = Acls(READS_GROUP)
    request = acls.passed(api, TABLE[api].body)
    acls.set(READS_GROUP, READS_TOPIC)
    request.complete(ANSWERS[api])
    assert request.error is None and request.response is ANSWERS[api] and not acls.refusals


def test_an_offset_that_a_disk_was_slow_to_find_is_not_told_without_the_right() -> None:
    acls = Acls(READS_TOPIC)
    request = acls.passed("ListOffsets", offsets.ListOffsetsRequest((offsets.ListOffsetsPartition(SEEN, TOPIC_ID, 7),)))
    acls.set()
    request.complete(offsets.ListOffsetsResponse((offsets.ListOffsetsResult(SEEN, None, 5),)))
    (answered,) = request.response.partitions  # type: ignore[attr-defined]
    assert isinstance(answered.error, TopicAuthorizationFailedError) and answered.offset == -1 and acls.refusals == 1


def test_what_is_left_out_of_an_answer_is_decided_when_it_is_made() -> None:
    acls = Acls(Need(Operation.DESCRIBE, ResourceType.GROUP, "g"))
    request = acls.passed("ListGroups", listing.ListGroupsRequest())
    acls.set()
    request.complete(listing.ListGroupsResponse((listing.ListedGroup("g", "", "", listing.GroupType.CLASSIC),)))
    assert request.response == listing.ListGroupsResponse() and not acls.refusals


@pytest.mark.parametrize("api", sorted(JUDGED_IN_PARTS))
def test_the_rights_that_a_handler_asks_for_are_those_of_now(api: str) -> None:
    acls = Acls(READS_TOPIC, *TABLE[api].needs)
    rights = acls.passed(api, TABLE[api].body).rights
    assert rights is not None and rights.refusal(Operation.READ, "t") is None
    before, visibility = rights.version, rights.visibility()
    assert rights.version is before and visibility.version is before and visibility.sees("t")
    acls.set()
    assert isinstance(rights.refusal(Operation.READ, "t"), TopicAuthorizationFailedError)
    assert rights.version is not before and rights.visibility().version is rights.version
    assert not rights.visibility().sees("t")


def test_a_node_waits_for_any_topic_at_the_listener_of_nodes_and_a_client_for_those_it_may_use() -> None:
    guard, client = Acls(READS_TOPIC).guard, asked("ListOffsets", None).caller
    node = client._replace(listener="INTERNAL", principal="")
    for topic, may_client in (("t", True), ("u", False)):
        assert guard.may(client, Operation.READ, ResourceType.TOPIC, topic) is may_client
        assert guard.may(node, Operation.READ, ResourceType.TOPIC, topic)
    assert guard.may_any(node, Operation.WRITE, ResourceType.TOPIC)
    assert not guard.may_any(client, Operation.WRITE, ResourceType.TOPIC)
