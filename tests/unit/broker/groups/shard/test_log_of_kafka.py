"""A shard goes on where Kafka 4.3.1 stopped: it loads the log that Kafka wrote, with groups of both protocols.

The log is that of `tests/unit/broker/groups/records/`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.coordination.record_log import replay_entry
from broker.groups.records.record_log import read_group_records
from penstock.errors import GroupIdNotFoundError, UnstableOffsetCommitError
from penstock.messages.groups.listing import DescribedGroup, DescribeGroupsRequest, GroupType
from penstock.messages.groups.offsets import OffsetFetchGroup, OffsetFetchRequest
from penstock.types import TopicPartition
from tests.support.shard_core import ShardCore

LOG = Path(__file__).parents[1] / "records" / "kafka_4_3_1.log"


@pytest.fixture(scope="module")
def core() -> ShardCore:
    core = ShardCore()
    for entry in read_group_records(LOG.read_bytes(), 0).records:
        replay_entry(core.shard, entry)
    return core


def described(core: ShardCore, group_id: str) -> DescribedGroup:
    (group,) = core.ask(DescribeGroupsRequest((group_id,))).groups
    assert isinstance(group, DescribedGroup)
    return group


def test_a_classic_group_has_its_generation_and_its_members(core: ShardCore) -> None:
    group = described(core, "classic-g")
    fields = group.group_type, group.state, group.protocol_type, group.protocol_name, group.group_epoch
    assert fields == (GroupType.CLASSIC, "Stable", "consumer", "range", 1)
    assert {(member.client_id, member.group_instance_id) for member in group.members} == {
        ("one", None),
        ("two", "static-2"),
    }
    assert all(b"orders" in member.metadata and b"orders" in member.assignment_bytes for member in group.members)


def test_a_consumer_group_has_the_static_member_that_left_for_a_while(core: ShardCore) -> None:
    group = described(core, "new-g")
    (member,) = group.members
    assert (group.group_type, group.group_epoch, group.assignment_epoch) == (GroupType.CONSUMER, 4, 3)
    assert (member.group_instance_id, member.member_epoch) == ("static-b", -2)
    assert member.subscribed_topic_regex == "(^ord.*)"


def test_a_group_that_moved_to_the_new_protocol_and_back_is_a_classic_one(core: ShardCore) -> None:
    group = described(core, "mixed-g")
    assert (group.group_type, group.state, group.group_epoch, group.members) == (GroupType.CLASSIC, "Empty", 4, ())


def test_a_deleted_group_is_gone(core: ShardCore) -> None:
    assert isinstance(described(core, "gone-g").error, GroupIdNotFoundError)


def test_the_partitions_of_members_are_known_in_both_protocols() -> None:
    core = ShardCore()
    for entry in read_group_records(LOG.read_bytes(), 0).records:
        replay_entry(core.shard, entry)
    held = {group_id: sorted(map(str, core.shard.held(group_id, core.topics))) for group_id in ("classic-g", "gone-g")}
    assert held == {"classic-g": ["orders-0", "orders-1", "orders-2"], "gone-g": []}
    core.consumer_member("new", "m", "t")
    assert sorted(map(str, core.shard.held("new", core.topics))) == ["t-0", "t-1", "t-2"]
    core.topics.drop("t")
    assert not [*core.shard.held("new", core.topics)]


@pytest.mark.parametrize(
    ("group_id", "offsets"),
    [
        ("classic-g", {"orders-0": 5, "orders-1": 5, "orders-2": 5}),
        ("new-g", {"orders-0": 7, "orders-1": 7, "orders-2": 7, "payments-0": 7, "payments-1": 7}),
        ("mixed-g", {}),
        ("simple-g", {"orders-0": 3, "payments-1": 0}),
        ("gone-g", {}),
    ],
)
def test_its_offsets_are_there(core: ShardCore, group_id: str, offsets: dict[str, int]) -> None:
    found = core.shard.offsets.state.of_group(group_id)
    assert {str(place): stored.offset for place, stored in found} == offsets


@pytest.mark.parametrize(
    ("group_id", "offsets", "unstable"),
    [
        ("a-transaction-that-is-committed", {"t-0": 5, "t-1": 6}, set()),
        ("a-transaction-that-is-aborted", {"t-0": 3}, set()),
        ("a-later-commit-without-a-transaction", {"t-0": 7}, set()),
        ("two-producers-and-the-second-ends-first", {"t-0": 6}, set()),
        ("a-group-is-deleted-beside-a-pending-offset", {}, set()),
        ("a-transaction-that-stays-open", {"t-0": 3}, {"t-0", "u-0"}),
    ],
)
def test_what_kafkas_transactions_committed_is_there_and_what_was_open_waits(
    group_id: str, offsets: dict[str, int], unstable: set[str]
) -> None:
    core = ShardCore()
    for entry in read_group_records(LOG.with_name("kafka_4_3_1_transactions.log").read_bytes(), 0).records:
        replay_entry(core.shard, entry)
    places = tuple(TopicPartition(topic, 0) for topic in "tu")
    (stable,) = core.ask(OffsetFetchRequest((OffsetFetchGroup(group_id, places),), require_stable=True)).groups
    found = core.shard.offsets.state.of_group(group_id)
    assert {str(place): stored.offset for place, stored in found} == offsets
    refused = {str(one.partition) for one in stable.partitions if isinstance(one.error, UnstableOffsetCommitError)}
    assert refused == unstable
