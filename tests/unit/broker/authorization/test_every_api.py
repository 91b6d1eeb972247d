"""A principal without rights sees this of each API, and what one with exactly the right ones does: the table.

An API of clients that has no row here fails, as one does that has no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker.apis.served_apis import JUDGED_IN_PARTS, RULES
from broker.audit.audit_log import AuditLog
from broker.authorization.authorizer import Authorizer
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.coordination.joined_answers import client_of
from broker.network.broker_calls import THIS_BROKER
from broker.network.request_channel import Caller, Request
from metadata.image import MetadataImage, TopicImage
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    OperationNotAttemptedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
)
from penstock.messages import (
    cluster,
    configs,
    elections,
    features,
    log_dirs,
    metadata,
    offsets,
    produce,
    topics,
    voters,
)
from penstock.messages.api import ApiKind
from penstock.messages.apis import APIS
from penstock.messages.client_apis import FETCH
from penstock.messages.cluster import ClusterInfo, NodeListener, NodeStanding, PartitionTrouble, PartitionTroubleKind
from penstock.messages.configs import AlterConfigsResource, DescribeConfigsResource
from penstock.messages.fetch import FetchRequest
from penstock.messages.groups import classic_protocol as classic
from penstock.messages.groups import consumer_protocol as consumer
from penstock.messages.groups import coordinators, listing
from penstock.messages.groups import offsets as group_offsets
from penstock.messages.nodes import brokers
from penstock.messages.quorum import DescribeMetadataRequest, DescribeQuorumRequest
from penstock.messages.security import acls, quotas
from penstock.messages.security.acls import AclBinding, Need, Operation, Permission, ResourceType
from penstock.messages.security.authentication import SaslAuthenticateRequest
from penstock.messages.security.users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from penstock.messages.transactions import atomic_batches as batches
from penstock.messages.transactions import listing as transactions
from penstock.messages.transactions import producers
from penstock.types import Endpoint, TopicPartition
from tests.support.machine import NOW_NS
from tests.support.sinks import Sink

TOPIC_ID, ANNA, HOST = "T" * 22, "User:anna", "10.0.0.7"
SEEN, HIDDEN = TopicPartition("t", 0), TopicPartition("x", 0)
IMAGE = MetadataImage(topics_by_id={TOPIC_ID: TopicImage("t", TOPIC_ID, {})})
T, G, X, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
CLUSTER = "kafka-cluster"


@dataclass(frozen=True)
class Row:
    """A request, the rights with which nothing of it is refused, and what one without rights sees."""

    body: Any
    needs: tuple[Need, ...] = ()
    whole: type[ApiError] | None = None
    """The error of the request as a whole."""
    parts: Callable[[Any], list[Any]] | None = None
    """Errors of the parts of its answer; no handler was asked."""
    part: tuple[type[ApiError], ...] = ()
    handled: Any = None
    """A handler's answer, of which one without rights sees `seen`."""
    seen: Any = None


def need(operation: Operation, kind: ResourceType, name: str) -> Need:
    return Need(operation, kind, name)


def of_cluster(body: Any, operation: Operation) -> Row:
    return Row(body, (need(operation, C, CLUSTER),), ClusterAuthorizationFailedError)


def of_topic(body: Any, operation: Operation, field: str = "partitions") -> Row:
    return Row(
        body,
        (need(operation, T, "t"),),
        parts=lambda answer: [one.error for one in getattr(answer, field)],
        part=(TopicAuthorizationFailedError,),
    )


def of_group(body: Any, *more: Need) -> Row:
    return Row(body, (need(READ, G, "g"), *more), GroupAuthorizationFailedError)


def of_id(body: Any, name: str = "x", *more: Need) -> Row:
    return Row(body, (need(WRITE, X, name), *more), TransactionalIdAuthorizationFailedError)


STANDING = NodeStanding(
    1, False, 0, 1, 1, 0, 0, 0, ("/a",),
    node_listeners=(NodeListener("INTERNAL", "h", 1, False),),
    version="1.0",
    settings_digest="d",
    certificates=(cluster.CertificateStanding("INTERNAL", 1),),
    log_dir_rooms=(cluster.LogDirRoom("/a", 2, 1),),
    stuck_groups=(cluster.StuckGroup("g", 1, 1, 1),),
)  # fmt: skip
TROUBLE = PartitionTrouble("t", 0, PartitionTroubleKind.OFFLINE, (1,), ())
MEMBER = listing.GroupMember("m", subscribed_topic_names=("t",))
FOUND = group_offsets.OffsetFetchResult(SEEN, offset=5)
COMMIT = (group_offsets.OffsetCommitPartition(SEEN, 1),)
TABLE: dict[str, Row] = {
    "Produce": Row(
        produce.ProduceRequest(1, 0, [], transactional_id="x"),
        (need(WRITE, X, "x"),),
        TransactionalIdAuthorizationFailedError,
    ),
    "FetchConsumer": Row(FetchRequest(-1, -1, 0, 0, 1, [], [])),
    "ListOffsets": of_topic(offsets.ListOffsetsRequest((offsets.ListOffsetsPartition(SEEN, TOPIC_ID, -1),)), DESCRIBE),
    "OffsetForLeaderEpoch": of_topic(
        offsets.OffsetForLeaderEpochRequest((offsets.EpochPartition(SEEN, TOPIC_ID, 1),)), DESCRIBE
    ),
    "DeleteRecords": of_topic(
        offsets.DeleteRecordsRequest((offsets.DeleteRecordsPartition(SEEN, TOPIC_ID, 1),), 1), DELETE
    ),
    "DescribeProducers": of_topic(
        produce.DescribeProducersRequest((produce.DescribeProducersPartition(SEEN, TOPIC_ID),)), READ
    ),
    "Metadata": Row(
        metadata.MetadataRequest(None),
        (need(DESCRIBE, T, "t"),),
        handled=metadata.MetadataResponse("c", 1, (), (metadata.TopicInfo("t"),), 1),
        seen=metadata.MetadataResponse("c", 1, (), (), 1),
    ),
    "InitProducerId": Row(
        produce.InitProducerIdRequest(),
        (need(Operation.IDEMPOTENT_WRITE, C, CLUSTER),),
        ClusterAuthorizationFailedError,
    ),
    "CreateTopics": of_topic(topics.CreateTopicsRequest((topics.NewTopic("t"),)), CREATE, "topics"),
    "CreatePartitions": of_topic(topics.CreatePartitionsRequest((topics.NewPartitions("t", 2),)), ALTER, "topics"),
    "DeleteTopics": of_topic(topics.DeleteTopicsRequest((TOPIC_ID,)), DELETE, "topics"),
    "AlterConfigs": of_topic(
        configs.AlterConfigsRequest((AlterConfigsResource("topic", "t", ()),)), Operation.ALTER_CONFIGS, "resources"
    ),
    "DescribeConfigs": of_topic(
        configs.DescribeConfigsRequest((DescribeConfigsResource("topic", "t"),)),
        Operation.DESCRIBE_CONFIGS,
        "resources",
    ),
    "ElectLeaders": of_cluster(elections.ElectLeadersRequest(0), ALTER),
    "AlterPartitionReassignments": of_cluster(elections.AlterPartitionReassignmentsRequest(), ALTER),
    "UnregisterBroker": of_cluster(brokers.UnregisterBrokerRequest(1), ALTER),
    "DescribeCluster": Row(
        cluster.DescribeClusterRequest(),
        (need(DESCRIBE, C, CLUSTER),),
        handled=ClusterInfo("c", 1, (), 1, STANDING, troubles=(TROUBLE,)),
        seen=ClusterInfo("c", 1, (), 1, NodeStanding(1, False, 0, 1, 1, 0, 0, 0, (), is_partial=True)),
    ),
    "DescribeQuorum": of_cluster(DescribeQuorumRequest(), DESCRIBE),
    "DescribeFeatures": of_cluster(features.DescribeFeaturesRequest(), DESCRIBE),
    "UpdateFeatures": of_cluster(features.UpdateFeaturesRequest(()), ALTER),
    "AddVoter": of_cluster(voters.AddVoterRequest(1, "D" * 22, ()), ALTER),
    "RemoveVoter": of_cluster(voters.RemoveVoterRequest(1, "D" * 22), ALTER),
    "UnregisterController": of_cluster(voters.UnregisterControllerRequest(1), ALTER),
    "MakeQuorumDynamic": of_cluster(voters.MakeQuorumDynamicRequest(), ALTER),
    "DescribeMetadata": of_cluster(DescribeMetadataRequest(0, 0, 1), DESCRIBE),
    "DescribeLogDirs": of_cluster(log_dirs.DescribeLogDirsRequest(), DESCRIBE),
    "AlterReplicaLogDirs": of_cluster(log_dirs.AlterReplicaLogDirsRequest(()), ALTER),
    "FindCoordinator": Row(
        coordinators.FindCoordinatorRequest(("g",)),
        (need(DESCRIBE, G, "g"),),
        parts=lambda answer: [one.error for one in answer.coordinators],
        part=(GroupAuthorizationFailedError,),
    ),
    "ConsumerGroupHeartbeat": of_group(
        consumer.ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("t",)), need(DESCRIBE, T, "t")
    ),
    "JoinGroup": of_group(classic.JoinGroupRequest("g", 1, 1, "", "consumer", ())),
    "SyncGroup": of_group(classic.SyncGroupRequest("g", 1, "m")),
    "Heartbeat": of_group(classic.HeartbeatRequest("g", 1, "m")),
    "LeaveGroup": of_group(classic.LeaveGroupRequest("g", ())),
    "OffsetCommit": of_group(group_offsets.OffsetCommitRequest("g", COMMIT), need(READ, T, "t")),
    "OffsetFetch": Row(
        group_offsets.OffsetFetchRequest((group_offsets.OffsetFetchGroup("g", (SEEN,)),)),
        (need(DESCRIBE, G, "g"), need(DESCRIBE, T, "t")),
        parts=lambda answer: [one.error for one in answer.groups],
        part=(GroupAuthorizationFailedError,),
    ),
    "OffsetDelete": Row(
        group_offsets.OffsetDeleteRequest("g", (SEEN,)),
        (need(DELETE, G, "g"), need(READ, T, "t")),
        GroupAuthorizationFailedError,
    ),
    "ListGroups": Row(
        listing.ListGroupsRequest(),
        (need(DESCRIBE, G, "g"),),
        handled=listing.ListGroupsResponse((listing.ListedGroup("g", "", "", listing.GroupType.CLASSIC),)),
        seen=listing.ListGroupsResponse(),
    ),
    "DescribeGroups": Row(
        listing.DescribeGroupsRequest(("g",)),
        (need(DESCRIBE, G, "g"),),
        parts=lambda answer: [one.error for one in answer.groups],
        part=(GroupAuthorizationFailedError,),
    ),
    "DeleteGroups": Row(
        listing.DeleteGroupsRequest(("g",)),
        (need(DELETE, G, "g"),),
        parts=lambda answer: [one.error for one in answer.groups],
        part=(GroupAuthorizationFailedError,),
    ),
    "AddPartitionsToTxn": Row(
        producers.AddPartitionsToTxnRequest((producers.TransactionPartitions("x", 1, 1, (SEEN,)),)),
        (need(WRITE, X, "x"), need(WRITE, T, "t")),
        parts=lambda answer: [one.error for txn in answer.transactions for one in txn.partitions],
        part=(TransactionalIdAuthorizationFailedError,),
    ),
    "AddOffsetsToTxn": of_id(producers.AddOffsetsToTxnRequest("x", 1, 1, "g"), "x", need(READ, G, "g")),
    "TxnOffsetCommit": of_id(
        producers.TxnOffsetCommitRequest("x", "g", 1, 1, COMMIT), "x", need(READ, G, "g"), need(READ, T, "t")
    ),
    "EndTxn": of_id(producers.EndTxnRequest("x", 1, 1, True)),
    "BeginAtomicBatch": of_id(batches.BeginAtomicBatchRequest("app", 1, 1), "penstock.batch:app"),
    "CommitAtomicBatch": of_id(batches.CommitAtomicBatchRequest("app", 1), "penstock.batch:app"),
    "AbortAtomicBatch": of_id(batches.AbortAtomicBatchRequest("app", 1), "penstock.batch:app"),
    "DescribeTransactions": Row(
        transactions.DescribeTransactionsRequest(("x",)),
        (need(DESCRIBE, X, "x"),),
        parts=lambda answer: [one.error for one in answer.transactions],
        part=(TransactionalIdAuthorizationFailedError,),
    ),
    "ListTransactions": Row(
        transactions.ListTransactionsRequest(),
        (need(DESCRIBE, X, "x"),),
        handled=transactions.ListTransactionsResponse((transactions.TransactionListing("x", 1, "Empty"),)),
        seen=transactions.ListTransactionsResponse(),
    ),
    "EndHangingTransaction": of_cluster(transactions.EndHangingTransactionRequest(SEEN, TOPIC_ID, 1, 1, 0), ALTER),
    "AlterUserScramCredentials": of_cluster(AlterUserScramCredentialsRequest((), ()), ALTER),
    "DescribeUserScramCredentials": of_cluster(DescribeUserScramCredentialsRequest(), DESCRIBE),
    "SaslAuthenticate": Row(SaslAuthenticateRequest("PLAIN", b"")),
    "AlterClientQuotas": of_cluster(quotas.AlterClientQuotasRequest(), Operation.ALTER_CONFIGS),
    "DescribeClientQuotas": of_cluster(quotas.DescribeClientQuotasRequest(), Operation.DESCRIBE_CONFIGS),
    "CreateAcls": of_cluster(acls.CreateAclsRequest(), ALTER),
    "DeleteAcls": of_cluster(acls.DeleteAclsRequest(), ALTER),
    "DescribeAcls": of_cluster(acls.DescribeAclsRequest(), DESCRIBE),
}


def request_authorizer(
    *needs: Need, super_users: tuple[str, ...] = (), image: MetadataImage = IMAGE
) -> RequestAuthorizer:
    found = {
        str(n): AclBinding(kind, name, ANNA, operation, Permission.ALLOW, HOST)
        for n, (operation, kind, name) in enumerate(needs)
    }
    return RequestAuthorizer(
        Authorizer(lambda: found, super_users), lambda: image, "INTERNAL", AuditLog(lambda: 0), RULES, JUDGED_IN_PARTS
    )


def asked(api: str, body: Any, principal: str = ANNA, listener: str = "BROKER") -> Request:
    return Request(api, body, Sink(), Caller(Endpoint(HOST, 4711), listener, principal), NOW_NS)


def names_of_clients() -> set[str]:
    """The names of what clients ask: FETCH has another name on its way through the node."""
    names = {api.name for api in APIS.values() if api.kind.at_broker}
    return (names - {FETCH.name}) | {"FetchConsumer"}


def test_every_api_of_clients_has_a_rule_and_a_row() -> None:
    assert set(RULES) == names_of_clients() == set(TABLE)


@pytest.mark.parametrize("api", TABLE)
def test_what_somebody_without_rights_sees(api: str) -> None:
    row, guard = TABLE[api], request_authorizer()
    request = asked(api, row.body)
    if row.whole is not None:
        with pytest.raises(row.whole) as caught:
            guard.passes(request)
        assert str(caught.value).startswith(f"{ANNA} may not ") and not request.is_complete
        assert sum(guard._refusals.counts.values()) == 1
        return
    passed = guard.passes(request)
    if row.parts is not None:
        assert not passed and request.is_complete and request.error is None
        errors = row.parts(request.response)
        assert [type(error) for error in errors] == list(row.part)
        return
    assert passed
    if row.handled is not None:
        request.complete(row.handled)
        assert request.response == row.seen
    assert not guard._refusals.counts


@pytest.mark.parametrize("api", TABLE)
def test_who_has_exactly_the_rights_is_not_refused_and_sees_all(api: str) -> None:
    row = TABLE[api]
    request = asked(api, row.body)
    assert request_authorizer(*row.needs).passes(request) and request.body == row.body
    if row.handled is not None:
        request.complete(row.handled)
        assert request.response == row.handled


@pytest.mark.parametrize("api", [api for api, row in TABLE.items() if row.whole and row.needs])
def test_each_of_the_rights_is_needed(api: str) -> None:
    row = TABLE[api]
    for one in row.needs:
        request = asked(api, row.body)
        left = [other for other in row.needs if other is not one]
        try:
            is_refused = not request_authorizer(*left).passes(request)
        except ApiError:
            is_refused = True
        assert is_refused, one


@pytest.mark.parametrize("api", TABLE)
def test_a_super_user_may_do_everything_and_nodes_are_not_judged_here(api: str) -> None:
    row = TABLE[api]
    assert request_authorizer(super_users=(ANNA,)).passes(asked(api, row.body))
    node = asked(api, row.body, listener="INTERNAL")
    assert request_authorizer().passes(node) and node.amend is None
    own = Request(api, row.body, Sink(), THIS_BROKER, NOW_NS)
    assert request_authorizer().passes(own) and own.amend is None


@pytest.mark.parametrize("api", ["FetchFollower", "WriteTxnMarkers", "BrokerHeartbeat", "Nothing"])
def test_what_has_no_rule_is_refused_whoever_asks(api: str) -> None:
    with pytest.raises(ClusterAuthorizationFailedError, match="not for clients"):
        request_authorizer(super_users=(ANNA,)).passes(asked(api, None))


def test_the_parts_of_produce_and_fetch_are_judged_by_their_handlers() -> None:
    for api in JUDGED_IN_PARTS:
        row = TABLE[api]
        request = asked(api, row.body)
        assert request_authorizer(need(READ, T, "t"), *row.needs).passes(request) and request.rights is not None
        assert request.rights.refusal(READ, "t") is None
        assert isinstance(request.rights.refusal(WRITE, "t"), TopicAuthorizationFailedError)
        assert request.rights.refusal(READ, "/" + TOPIC_ID) is None  # no topic has such a name


def test_refused_parts_stand_in_their_places() -> None:
    questions = tuple(offsets.ListOffsetsPartition(TopicPartition(name, 0), TOPIC_ID, -1) for name in "xtxyt")
    request = asked("ListOffsets", offsets.ListOffsetsRequest(questions))
    assert request_authorizer(need(DESCRIBE, T, "t")).passes(request)
    assert [one.partition.topic for one in request.body.partitions] == ["t", "t"]
    results = tuple(offsets.ListOffsetsResult(SEEN, offset=offset) for offset in (7, 8))
    request.complete(offsets.ListOffsetsResponse(results))
    answered = request.response.partitions  # type: ignore[attr-defined]
    assert [(one.partition.topic, one.offset, type(one.error)) for one in answered] == [
        ("x", -1, TopicAuthorizationFailedError),
        ("t", 7, type(None)),
        ("x", -1, TopicAuthorizationFailedError),
        ("y", -1, TopicAuthorizationFailedError),
        ("t", 8, type(None)),
    ]


def test_a_topic_that_there_is_not_is_refused_like_one_that_there_is() -> None:
    request = asked("Metadata", metadata.MetadataRequest(("x", "t", "gone", "x")))
    assert request_authorizer(need(READ, T, "t")).passes(request)
    assert request.body.topics == ("t",)
    request.complete(metadata.MetadataResponse("c", 1, (), (metadata.TopicInfo("t", config={"a": "b"}),), 1))
    answered = request.response.topics  # type: ignore[attr-defined]
    assert [(one.name, type(one.error), one.config) for one in answered] == [
        ("x", TopicAuthorizationFailedError, {}),
        ("t", type(None), {}),
        ("gone", TopicAuthorizationFailedError, {}),
    ]


def test_a_topic_that_this_broker_does_not_know_yet_is_deleted_for_super_users_alone() -> None:
    """The controller knows it, and does not judge."""
    newer = "N" * 22
    request = asked("DeleteTopics", topics.DeleteTopicsRequest((newer, TOPIC_ID)))
    assert request_authorizer(need(DELETE, T, "t"), need(DELETE, T, "*")).passes(request)
    assert request.body.topic_ids == (TOPIC_ID,)
    request.complete(topics.DeleteTopicsResponse((topics.TopicResult("t", TOPIC_ID),)))
    first, second = request.response.topics  # type: ignore[attr-defined]
    assert (first.name, first.topic_id, type(first.error)) == ("", newer, UnknownTopicIdError)
    assert (second.name, second.error) == ("t", None)
    whole = asked("DeleteTopics", topics.DeleteTopicsRequest((newer,)))
    assert not request_authorizer(need(DELETE, T, "t")).passes(whole) and whole.is_complete
    by_super = asked("DeleteTopics", topics.DeleteTopicsRequest((newer,)))
    assert request_authorizer(super_users=(ANNA,)).passes(by_super) and by_super.body.topic_ids == (newer,)


def test_a_transaction_gets_all_partitions_or_none() -> None:
    one = producers.TransactionPartitions("x", 1, 1, (SEEN, HIDDEN))
    other = producers.TransactionPartitions("x", 1, 1, (SEEN,))
    request = asked("AddPartitionsToTxn", producers.AddPartitionsToTxnRequest((one, other)))
    assert request_authorizer(need(WRITE, X, "x"), need(WRITE, T, "t")).passes(request)
    assert request.body.transactions == (other,)
    result = producers.TransactionPartitionResults("x", (producers.TransactionPartitionResult(SEEN),))
    request.complete(producers.AddPartitionsToTxnResponse((result,)))
    first, second = request.response.transactions  # type: ignore[attr-defined]
    assert [type(part.error) for part in first.partitions] == [
        OperationNotAttemptedError,
        TopicAuthorizationFailedError,
    ]
    assert second == result


def test_of_a_group_with_topics_that_one_may_not_describe_nothing_is_told() -> None:
    request = asked("DescribeGroups", listing.DescribeGroupsRequest(("g",)))
    assert request_authorizer(need(DESCRIBE, G, "g")).passes(request)
    request.complete(listing.DescribeGroupsResponse((listing.DescribedGroup("g", members=(MEMBER,)),)))
    (answered,) = request.response.groups  # type: ignore[attr-defined]
    assert isinstance(answered.error, TopicAuthorizationFailedError) and answered.members == ()
    assert "'g'" in str(answered.error) and "'t'" not in str(answered.error), "nobody has named the topic"


def test_all_offsets_of_a_group_are_those_of_topics_that_one_may_describe() -> None:
    everything = group_offsets.OffsetFetchGroup("g", all_partitions=True)
    asks = (everything, group_offsets.OffsetFetchGroup("h", (HIDDEN, SEEN)))
    request = asked("OffsetFetch", group_offsets.OffsetFetchRequest(asks))
    rights = need(DESCRIBE, G, "g"), need(READ, G, "h"), need(DESCRIBE, T, "t")
    assert request_authorizer(*rights).passes(request)
    assert request.body.groups == (asks[0], group_offsets.OffsetFetchGroup("h", (SEEN,)))
    found = [group_offsets.OffsetFetchResult(part, offset=5) for part in (SEEN, HIDDEN)]
    answer = (group_offsets.GroupOffsets("g", None, tuple(found)), group_offsets.GroupOffsets("h", None, (found[0],)))
    request.complete(group_offsets.OffsetFetchResponse(answer))
    first, second = request.response.groups  # type: ignore[attr-defined]
    assert first.partitions == (found[0],)
    assert [(one.partition, type(one.error)) for one in second.partitions] == [
        (HIDDEN, TopicAuthorizationFailedError),
        (SEEN, type(None)),
    ]


def test_one_group_in_two_questions_has_its_refusals_in_both() -> None:
    asks = tuple(group_offsets.OffsetFetchGroup("g", (one,)) for one in (HIDDEN, SEEN))
    request = asked("OffsetFetch", group_offsets.OffsetFetchRequest(asks))
    assert request_authorizer(need(DESCRIBE, G, "g"), need(DESCRIBE, T, "t")).passes(request)
    answers = (group_offsets.GroupOffsets("g"), group_offsets.GroupOffsets("g", None, (FOUND,)))
    request.complete(group_offsets.OffsetFetchResponse(answers))
    answered = [[(one.partition, type(one.error)) for one in group.partitions] for group in request.response.groups]  # type: ignore[attr-defined]
    assert answered == [[(HIDDEN, TopicAuthorizationFailedError)], [(SEEN, type(None))]]


def test_a_refused_configuration_has_the_offset_of_the_metadata_by_which_it_was_judged() -> None:
    body = configs.DescribeConfigsRequest((DescribeConfigsResource("topic", "t"),))
    request = asked("DescribeConfigs", body)
    assert not request_authorizer(image=replace(IMAGE, offset=57)).passes(request)
    assert request.response.metadata_offset == 57  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("api", "body", "hint"),
    [
        ("FindCoordinator", coordinators.FindCoordinatorRequest(("g",)), "Describe on group 'g' (Read implies it);"),
        ("OffsetFetch", group_offsets.OffsetFetchRequest((group_offsets.OffsetFetchGroup("g"),)), "(Read implies it);"),
        ("Metadata", metadata.MetadataRequest(("t",)), "Describe on topic 't' (Read or Write implies it);"),
        (
            "DescribeTransactions",
            transactions.DescribeTransactionsRequest(("x",)),
            "Describe on transactional id 'x' (Write implies it);",
        ),
    ],
)
def test_an_error_about_describe_says_which_right_implies_it(api: str, body: Any, hint: str) -> None:
    request = asked(api, body)
    if request_authorizer().passes(request):
        request.complete(metadata.MetadataResponse("c", 1, (), (), 1))
    assert hint in str(request.response)


def test_a_producer_without_a_topic_learns_that_it_may_write_to_none() -> None:
    with pytest.raises(ClusterAuthorizationFailedError, match="may not Write on any topic, nor IdempotentWrite"):
        request_authorizer().passes(asked("InitProducerId", produce.InitProducerIdRequest()))


def test_a_producer_of_any_topic_gets_a_producer_id() -> None:
    assert request_authorizer(need(WRITE, T, "t")).passes(asked("InitProducerId", produce.InitProducerIdRequest()))


def test_the_writer_of_an_atomic_batch_has_the_right_of_its_application() -> None:
    right = need(WRITE, X, "penstock.batch:app")
    writes = produce.ProduceRequest(1, 0, [], transactional_id="penstock.batch:app#77")
    assert request_authorizer(right).passes(asked("Produce", writes))
    other = produce.ProduceRequest(1, 0, [], transactional_id="penstock.batch:other#77")
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        request_authorizer(right).passes(asked("Produce", other))


def test_an_api_of_nodes_is_no_api_of_clients() -> None:
    between = {api.name for api in APIS.values() if api.kind in (ApiKind.CONTROLLER, ApiKind.BROKERS, ApiKind.QUORUM)}
    assert not between & set(RULES)


def test_a_heartbeat_shows_what_its_member_may_know_of_and_notes_nothing_of_what_it_may_not() -> None:
    """For its pattern: the coordinator asks of each topic that it matches."""
    row = TABLE["ConsumerGroupHeartbeat"]
    guard, request = (
        request_authorizer(need(DESCRIBE, T, "shown"), *row.needs),
        asked("ConsumerGroupHeartbeat", row.body),
    )
    assert guard.passes(request)
    visible = client_of(request).visibility
    assert visible is not None and visible.principal == ANNA
    assert [visible.sees(name) for name in ("shown", "hidden")] == [True, False] and not guard._refusals.counts
    again, other = (asked("ConsumerGroupHeartbeat", row.body) for _ in range(2))
    assert guard.passes(again) and request_authorizer(*row.needs).passes(other)
    versions = [visibility.version for one in (again, other) if (visibility := client_of(one).visibility) is not None]
    assert [version is visible.version for version in versions] == [True, False], "another one with other ACLs alone"


def test_without_an_authorizer_a_member_may_know_of_everything() -> None:
    assert client_of(asked("ConsumerGroupHeartbeat", TABLE["ConsumerGroupHeartbeat"].body)).visibility is None
