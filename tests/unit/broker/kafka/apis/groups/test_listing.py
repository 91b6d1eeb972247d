"""Promises of the lists and descriptions of groups at Kafka's listener: each description has groups of its own
protocol."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.api_row import failed_answer
from broker.kafka.apis.groups import listing
from broker.kafka.schemas.groups.classic import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from broker.kafka.schemas.groups.consumer import ConsumerGroupDescribeRequest
from penstock.errors import (
    CoordinatorLoadInProgressError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    NotCoordinatorError,
)
from penstock.messages.groups import listing as messages
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.messages.groups.group_apis import DESCRIBED_MAX
from penstock.messages.groups.listing import GroupType
from tests.support.kafka_plans import asked, ended, first_ask, parts_of, read_by_client
from tests.support.kafka_rows import GROUPS, rows_over

TOPIC = "T" * 21 + "A"
PARTS = parts_of()
ROWS = {row.name: row for row in rows_over(PARTS, *GROUPS)}
OPERATIONS, NOT_ASKED = 3400, -0x80000000
CLASSIC = messages.DescribedGroup(
    "old",
    None,
    GroupType.CLASSIC,
    "Stable",
    "consumer",
    "range",
    7,
    members=(
        messages.GroupMember(
            "m",
            "i",
            "app",
            "/10.0.0.1",
            member_type=GroupType.CLASSIC,
            metadata=b"\x00\x01",
            assignment_bytes=b"\x02",
        ),
    ),
)
CONSUMER = messages.DescribedGroup(
    "new",
    None,
    GroupType.CONSUMER,
    "Reconciling",
    "consumer",
    "uniform",
    9,
    8,
    (
        messages.GroupMember(
            "m",
            None,
            "app",
            "/10.0.0.1",
            "rack",
            9,
            ("t",),
            None,
            (TopicIdPartitions(TOPIC, (0,), "t"),),
            (TopicIdPartitions(TOPIC, (0, 1), "t"),),
        ),
        messages.GroupMember("n", member_type=GroupType.CLASSIC, subscribed_topic_regex="t.*"),
    ),
)
MISSING = messages.DescribedGroup("gone", GroupIdNotFoundError("there is no group gone"))
LOADING = messages.DescribedGroup("busy", CoordinatorLoadInProgressError("busy"))


def described(plan: Any, version: int) -> Any:
    next(plan)
    return read_by_client(
        ended(plan, messages.DescribeGroupsResponse((CLASSIC, CONSUMER, MISSING, LOADING))), version
    ).groups


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_with_what_the_version_tells(version: int) -> None:
    filters = {} if version < 4 else {"states_filter": ["Stable"]}
    if version >= 5:
        filters["types_filter"] = ["classic"]
    plan = listing.list_groups(asked(version), ListGroupsRequest(**filters))
    assert first_ask(plan, "ListGroups") == messages.ListGroupsRequest(
        tuple(filters.get("states_filter", ())), tuple(filters.get("types_filter", ()))
    )
    answer = messages.ListGroupsResponse((messages.ListedGroup("g", "consumer", "Stable", GroupType.CONSUMER),))
    (read,) = read_by_client(ended(plan, answer), version).groups
    assert (read.group_id, read.protocol_type) == ("g", "consumer")
    assert (read.group_state, read.group_type) == (
        "Stable" if version >= 4 else "",
        "consumer" if version >= 5 else "",
    )
    failed = failed_answer(ROWS["ListGroups"], asked(version), ListGroupsRequest(), CoordinatorLoadInProgressError())
    assert read_by_client(failed, version).error_code == 14


@pytest.mark.parametrize("version", range(7))
def test_a_classic_group_is_described_and_another_is_not_there(version: int) -> None:
    body = DescribeGroupsRequest(groups=["old", "new", "gone", "busy", "old"])
    if version >= 3:
        body.include_authorized_operations = True
    plan = listing.describe_groups(PARTS, asked(version), body)
    old, new, gone, busy = described(plan, version)
    assert (old.error_code, old.group_state, old.protocol_type, old.protocol_data) == (0, "Stable", "consumer", "range")
    (member,) = old.members
    assert (member.member_id, member.client_id, member.client_host) == ("m", "app", "/10.0.0.1")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"\x00\x01", b"\x02")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert old.authorized_operations == (OPERATIONS if version >= 3 else NOT_ASKED)
    for one in (new, gone):
        assert (one.group_state, one.error_code, one.members) == ("Dead", 69 if version >= 6 else 0, [])
    assert (new.error_message, gone.error_message) == (
        ("new speaks the consumer protocol: ConsumerGroupDescribe has it", "there is no group gone")
        if version >= 6
        else (None, None)
    )
    assert (busy.error_code, busy.group_state) == (14, "")


def test_a_group_that_is_named_twice_is_asked_for_once() -> None:
    plan = listing.describe_groups(PARTS, asked(0), DescribeGroupsRequest(groups=["a", "b", "a"]))
    assert first_ask(plan, "DescribeGroups").group_ids == ("a", "b")


def test_many_groups_are_described_in_turns() -> None:
    names = [f"g{n}" for n in range(DESCRIBED_MAX + 1)]
    plan = listing.consumer_group_describe(PARTS, asked(0), ConsumerGroupDescribeRequest(group_ids=names))
    assert len(first_ask(plan, "DescribeGroups").group_ids) == DESCRIBED_MAX
    some = tuple(messages.DescribedGroup(name, group_type=GroupType.CONSUMER) for name in names)
    assert plan.send(messages.DescribeGroupsResponse(some[:DESCRIBED_MAX])).body.group_ids == (names[-1],)
    answer = ended(plan, messages.DescribeGroupsResponse(some[DESCRIBED_MAX:]))
    assert [one.group_id for one in answer.groups] == names


@pytest.mark.parametrize("version", range(2))
def test_a_consumer_group_is_described_with_both_assignments(version: int) -> None:
    body = ConsumerGroupDescribeRequest(group_ids=["old", "new", "gone", "busy"], include_authorized_operations=True)
    old, new, gone, busy = described(listing.consumer_group_describe(PARTS, asked(version), body), version)
    assert [(one.error_code, one.error_message) for one in (old, gone, busy)] == [
        (69, "old speaks the classic protocol: DescribeGroups has it"),
        (69, "there is no group gone"),
        (14, "busy"),
    ]
    assert (new.group_state, new.group_epoch, new.assignment_epoch, new.assignor_name) == (
        "Reconciling",
        9,
        8,
        "uniform",
    )
    assert new.authorized_operations == OPERATIONS
    member, classic = new.members
    assert (member.rack_id, member.member_epoch, member.subscribed_topic_names) == ("rack", 9, ["t"])
    for found, partitions in ((member.assignment, [0]), (member.target_assignment, [0, 1])):
        (topic,) = found.topic_partitions
        assert (topic.topic_id, topic.topic_name, topic.partitions) == (TOPIC, "t", partitions)
    assert (member.subscribed_topic_regex, classic.subscribed_topic_regex) == ("", "t.*")
    assert (member.member_type, classic.member_type) == ((1, 0) if version else (-1, -1))


@pytest.mark.parametrize("version", range(3))
def test_each_group_that_is_deleted_has_its_own_outcome(version: int) -> None:
    plan = listing.delete_groups(asked(version), DeleteGroupsRequest(groups_names=["g", "h", "i", "g"]))
    assert first_ask(plan, "DeleteGroups").group_ids == ("g", "h", "i")
    answer = (
        messages.DeletedGroup("g"),
        messages.DeletedGroup("h", NonEmptyGroupError()),
        messages.DeletedGroup("i", GroupIdNotFoundError()),
    )
    read = read_by_client(ended(plan, messages.DeleteGroupsResponse(answer)), version).results
    assert [(one.group_id, one.error_code) for one in read] == [("g", 0), ("h", 68), ("i", 69)]


@pytest.mark.parametrize(
    ("api", "body", "field"),
    [
        ("DeleteGroups", DeleteGroupsRequest(groups_names=["g", "h"]), "results"),
        ("DescribeGroups", DescribeGroupsRequest(groups=["g", "h"]), "groups"),
        ("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=["g", "h"]), "groups"),
    ],
)
def test_a_request_that_fails_as_a_whole_has_its_error_at_each_group(api: str, body: Any, field: str) -> None:
    row = ROWS[api]
    for version in range(row.versions[0], row.versions[1] + 1):
        read = read_by_client(failed_answer(row, asked(version), body, NotCoordinatorError()), version)
        assert [(one.group_id, one.error_code) for one in getattr(read, field)] == [("g", 16), ("h", 16)]
