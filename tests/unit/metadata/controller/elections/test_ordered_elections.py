"""Elections that an operator orders (KIP-460): the preferred leader, and a leader at the price of records."""

from __future__ import annotations

import pytest

from metadata.controller.config import ControllerConfig
from penstock.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    PolicyViolationError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.elections import ElectionType, ElectLeadersRequest, ElectLeadersResult, NamedPartitions
from penstock.messages.topics import NewTopic
from tests.unit.metadata.harness import CLUSTER_ID, Cluster

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
ALL = None


def elect(
    cluster: Cluster, kind: int, topics: tuple[NamedPartitions, ...] | None = (NamedPartitions("t"),)
) -> tuple[ElectLeadersResult, ...]:
    request = ElectLeadersRequest(kind, topics)
    return cluster.commit(cluster.controller.elect_leaders(request, cluster.now_ms)).partitions


def two_replicas() -> tuple[Cluster, int, int]:
    """One partition with two replicas in sync; the cluster, the preferred leader, and the other one."""
    cluster = Cluster(2)
    cluster.create("t", replication_factor=2)
    first, second = cluster.partition("t").replicas
    return cluster, first, second


def test_the_preferred_leader_leads_again_once_it_is_in_sync() -> None:
    cluster, first, second = two_replicas()
    cluster.let_die(first)
    assert cluster.partition("t").leader_id == second
    (result,) = elect(cluster, PREFERRED)
    assert isinstance(result.error, PreferredLeaderNotAvailableError) and "not in sync" in str(result.error)
    assert result.leader_id == second
    cluster.start(first)
    cluster.alter(second, cluster.proposal("t", (second, first)))
    before = cluster.partition("t")
    assert elect(cluster, PREFERRED) == (ElectLeadersResult("t", 0, None, first),)
    after = cluster.partition("t")
    assert (after.leader_id, after.isr, after.leader_epoch) == (first, before.isr, before.leader_epoch + 1)
    assert cluster.controller.statistics().unclean_elections == 0


def test_a_preferred_leader_that_shuts_down_is_not_elected() -> None:
    cluster, first, _ = two_replicas()
    cluster.heartbeat(first, stop=True)
    assert cluster.partition("t").leader_id != first
    (result,) = elect(cluster, PREFERRED)
    assert isinstance(result.error, PreferredLeaderNotAvailableError)


def test_an_unclean_election_takes_a_replica_in_service_and_is_counted() -> None:
    cluster, first, second = two_replicas()
    cluster.let_die(second)
    cluster.let_die(first)
    cluster.start(second)
    assert not cluster.partition("t").has_leader and cluster.partition("t").isr == (first,)
    assert elect(cluster, UNCLEAN) == (ElectLeadersResult("t", 0, None, second),)
    assert cluster.partition("t").isr == (second,)
    assert cluster.controller.statistics().unclean_elections == 1


def test_an_unclean_election_needs_a_replica_in_service() -> None:
    cluster, first, second = two_replicas()
    cluster.let_die(first, second)
    (result,) = elect(cluster, UNCLEAN)
    assert isinstance(result.error, EligibleLeadersNotAvailableError) and f"[{first}, {second}]" in str(result.error)
    assert result.leader_id == -1


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_where_a_leader_is_good_enough_no_record_is_made(kind: ElectionType) -> None:
    """Also an unclean election while an ISR member lives."""
    cluster, first, _ = two_replicas()
    before = cluster.next_offset
    (result,) = elect(cluster, kind, (NamedPartitions("t", (0,)),))
    assert isinstance(result.error, ElectionNotNeededError) and result.leader_id == first
    assert elect(cluster, kind) == elect(cluster, kind, ALL) == ()
    assert cluster.next_offset == before


def test_each_partition_stands_alone_and_all_means_every_topic() -> None:
    cluster = Cluster(2)
    cluster.create_all(NewTopic("a", 2, 2), NewTopic("b", 1, 2))
    cluster.let_die(1)
    cluster.start(1)
    for name, number in (("a", 0), ("a", 1), ("b", 0)):
        cluster.alter(2, cluster.proposal(name, (2, 1), number))
    moved = {(name, n) for name, n in (("a", 0), ("a", 1), ("b", 0)) if cluster.partition(name, n).replicas[0] == 1}
    assert moved and {(r.topic, r.partition) for r in elect(cluster, PREFERRED, ALL)} == moved
    found = elect(
        cluster,
        PREFERRED,
        (NamedPartitions("none"), NamedPartitions("a", (0, 7, 0, -1)), NamedPartitions("../x", (3,))),
    )
    wanted = (
        UnknownTopicOrPartitionError,
        ElectionNotNeededError,
        UnknownTopicOrPartitionError,
        InvalidRequestError,
        UnknownTopicOrPartitionError,
        UnknownTopicOrPartitionError,
    )
    assert tuple(type(result.error) for result in found) == wanted
    assert [(r.topic, r.partition) for r in found][:3] == [("none", -1), ("a", 0), ("a", 7)]


@pytest.mark.parametrize("kind", [-1, 2, 1 << 31])
def test_an_election_type_that_is_not_known_is_refused(kind: int) -> None:
    with pytest.raises(InvalidRequestError, match=str(kind)):
        elect(Cluster(1), kind, ALL)


def test_a_request_is_bounded() -> None:
    cluster = Cluster(1, ControllerConfig(CLUSTER_ID, max_items_per_request=3))
    with pytest.raises(InvalidRequestError, match="4 partitions"):
        elect(cluster, PREFERRED, (NamedPartitions("a"), NamedPartitions("b", (0, 1, 2))))


def test_more_elections_than_one_batch_may_hold_are_refused_whole() -> None:
    cluster = Cluster(2, ControllerConfig(CLUSTER_ID, max_records_per_decision=3))
    for name in "abc":
        cluster.create(name, partitions=2, replication_factor=2)
    cluster.let_die(1, 2)
    cluster.heartbeat(1)
    cluster.let_die(1, 2)
    partitions = [cluster.partition(name, number) for name in "abc" for number in (0, 1)]
    gone = {p.isr[0] for p in partitions}
    for broker in {1, 2} - gone:
        cluster.start(broker)
    before = cluster.next_offset
    with pytest.raises(PolicyViolationError, match="6 leaders would be elected, at most 3"):
        elect(cluster, UNCLEAN, ALL)
    assert cluster.next_offset == before
