"""ACLs: made once, removed by what filters find, the same after a fail-over and in a snapshot; bad ones are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.controller.config import ControllerConfig
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_id_of
from penstock.errors import InvalidRequestError, InvariantViolation, PolicyViolationError
from penstock.messages.security.acls import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from tests.unit.metadata.harness import CLUSTER_ID, EPOCH, Cluster

READS = AclBinding(ResourceType.TOPIC, "orders", "User:anna", Operation.READ)
ALL = replace(READS, resource_name="*", operation=Operation.ALL)
PREFIX = replace(READS, resource_name="ord", pattern_type=PatternType.PREFIXED, permission=Permission.DENY)
GROUP = replace(READS, resource_type=ResourceType.GROUP, resource_name="g", principal="User:bob", host="10.0.0.1")
CLUSTER = replace(READS, resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster", operation=Operation.ALTER)
EVERY = (READS, ALL, PREFIX, GROUP, CLUSTER)


def held(cluster: Cluster) -> set[AclBinding]:
    return set(cluster.image.acls.values())


def test_acls_are_made_once_and_outlive_the_controller() -> None:
    cluster = Cluster()
    assert cluster.create_acls(*EVERY, READS) == [None] * 6
    offset = cluster.next_offset
    assert cluster.create_acls(*EVERY) == [None] * 5 and cluster.next_offset == offset
    assert held(cluster) == set(EVERY) and len(cluster.image.acls) == 5
    cluster.fail_over()
    assert cluster.create_acls(GROUP) == [None] and cluster.next_offset == offset
    assert [one.acls for one in cluster.delete_acls(AclFilter(principal="User:bob"))] == [(GROUP,)]
    assert held(cluster) == {*EVERY} - {GROUP}


def test_a_snapshot_and_a_difference_of_images_have_them() -> None:
    cluster = Cluster()
    before = cluster.image
    cluster.create_acls(*EVERY)
    image = cluster.image
    data = b"".join(encode_snapshot(image, 1))
    assert decode_snapshot(data, snapshot_id_of(image)) == image and image.digest() != before.digest()
    delta = MetadataDelta.between(before, image)
    assert not delta.is_empty and dict(delta.acls.by_id) == dict(image.acls)
    assert MetadataDelta.between(image, image).is_empty
    cluster.delete_acls(AclFilter())
    assert cluster.image.acls == {} and cluster.image.digest() == before.digest()
    assert held(cluster) == set() and len(image.acls) == 5  # an older image stays as it was


FOUND = [
    (AclFilter(), set(EVERY)),
    (AclFilter(ResourceType.TOPIC), {READS, ALL, PREFIX}),
    (AclFilter(ResourceType.TOPIC, "orders"), {READS}),
    (AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH), {READS, ALL, PREFIX}),
    (AclFilter(ResourceType.TOPIC, "order", PatternType.MATCH), {ALL, PREFIX}),
    (AclFilter(ResourceType.TOPIC, None, PatternType.PREFIXED), {PREFIX}),
    (AclFilter(pattern_type=PatternType.LITERAL, resource_name="*"), {ALL}),
    (AclFilter(host="10.0.0.1"), {GROUP}),
    (AclFilter(operation=Operation.ALL), {ALL}),
    (AclFilter(permission=Permission.DENY), {PREFIX}),
    (AclFilter(principal="User:*"), set()),
]


@pytest.mark.parametrize(("wanted", "found"), FOUND)
def test_a_filter_finds_what_kafkas_finds_and_it_goes(wanted: AclFilter, found: set[AclBinding]) -> None:
    cluster = Cluster()
    cluster.create_acls(*EVERY)
    (result,) = cluster.delete_acls(wanted)
    assert set(result.acls) == found and result.error is None
    assert held(cluster) == set(EVERY) - found


def test_what_an_earlier_filter_found_is_its_own() -> None:
    cluster = Cluster()
    cluster.create_acls(*EVERY)
    first, second, bad = cluster.delete_acls(
        AclFilter(principal="User:bob"), AclFilter(), AclFilter(ResourceType.UNKNOWN)
    )
    assert first.acls == (GROUP,) and set(second.acls) == set(EVERY) - {GROUP}
    assert isinstance(bad.error, InvalidRequestError) and not cluster.image.acls


BAD = [
    (replace(READS, resource_name=""), "names its topic"),
    (replace(READS, resource_name="x" * 1_025), "at most 1024"),
    (replace(READS, resource_type=ResourceType.ANY), "resource type 'any'"),
    (replace(READS, resource_type=ResourceType.UNKNOWN), "resource type 'unknown'"),
    (replace(CLUSTER, resource_name="mine"), "kafka-cluster"),
    (replace(READS, pattern_type=PatternType.MATCH), "literal or prefixed"),
    (replace(READS, permission=Permission.ANY), "allows or denies"),
    (replace(READS, operation=Operation.ANY), "no operation Any"),
    (replace(READS, operation=Operation.CLUSTER_ACTION), "no operation ClusterAction"),
    (replace(GROUP, operation=Operation.WRITE), "no operation Write on a group"),
    (replace(READS, principal="anna"), "User:NAME"),
    (replace(READS, principal="User:"), "User:NAME"),
    (replace(READS, principal="Group:a"), "User:NAME"),
    (replace(READS, principal="User:" + "x" * 1_024), "at most 1024"),
    (replace(READS, host=""), "no address"),
    (replace(READS, host="node-1"), "no address"),
    (replace(READS, host="::ffff:10.0.0.7"), "write the address '::ffff:10.0.0.7' as '10.0.0.7'"),
    (replace(READS, host="::ffff:a00:7"), "write the address '::ffff:a00:7' as '10.0.0.7'"),
    (replace(READS, host="fe80::1%eth0"), "write the address 'fe80::1%eth0' as 'fe80::1'"),
    (replace(READS, host="2001:DB8::0:1"), "write the address '2001:DB8::0:1' as '2001:db8::1'"),
    (replace(READS, host="10.0.0.0/8"), "no address"),
    (replace(READS, host="::0001"), "'::1'"),
]


@pytest.mark.parametrize(("acl", "words"), BAD)
def test_an_acl_that_would_never_count_is_refused_and_the_others_are_made(acl: AclBinding, words: str) -> None:
    cluster = Cluster()
    error, none = cluster.create_acls(acl, GROUP)
    assert isinstance(error, InvalidRequestError) and words in str(error) and none is None
    assert held(cluster) == {GROUP}


def test_there_is_a_limit_of_acls_and_of_one_decision() -> None:
    cluster = Cluster(config=ControllerConfig(CLUSTER_ID, max_acls=3))
    errors = cluster.create_acls(*EVERY)
    assert errors[:3] == [None] * 3 and all(isinstance(error, PolicyViolationError) for error in errors[3:])
    small = Cluster(config=ControllerConfig(CLUSTER_ID, max_records_per_decision=2))
    small.create_acls(READS, ALL)
    small.create_acls(PREFIX)
    (result,) = small.delete_acls(AclFilter())
    assert isinstance(result.error, PolicyViolationError) and len(small.image.acls) == 3


def test_filters_that_name_an_acl_whole_cost_nothing_and_others_are_bounded() -> None:
    cluster = Cluster(config=ControllerConfig(CLUSTER_ID, max_acls_compared=8))
    cluster.create_acls(*EVERY)
    whole = [
        AclFilter(a.resource_type, a.resource_name, a.pattern_type, a.principal, a.host, a.operation, a.permission)
        for a in EVERY
    ]
    assert [one.exact for one in whole] == list(EVERY) and AclFilter().exact is None
    gone = cluster.delete_acls(whole[0], whole[0], whole[1], AclFilter(principal="User:bob"))
    assert [one.acls for one in gone] == [(READS,), (), (ALL,), (GROUP,)]
    none = AclFilter(principal="User:nobody")
    found = cluster.delete_acls(*[none] * 5, whole[2])
    assert [type(one.error) for one in found] == [type(None)] * 4 + [InvalidRequestError, type(None)]
    assert found[-1].acls == (PREFIX,) and held(cluster) == {CLUSTER}


def test_a_record_that_cannot_be_is_never_replayed() -> None:
    record = AccessControlEntryRecord("i", "TOPIC", "t", "LITERAL", "User:a", "*", "READ", "ALLOW")
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(record)
    for wrong in (
        record,
        RemoveAccessControlEntryRecord("other"),
        replace(record, id="j", operation="FLY"),
        replace(record, id="j", resource_type="topic"),
    ):
        with pytest.raises(InvariantViolation):
            delta.replay(wrong)
    assert len(delta.apply(0, EPOCH).acls) == 1
