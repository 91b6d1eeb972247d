"""Promises about the cluster's own topics: made once, when a coordinator asks, with replicas that suit the cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from metadata.controller.config import ControllerConfig
from metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    StaleBrokerEpochError,
)
from penstock.messages.topics import CreateInternalTopicRequest, CreateInternalTopicResponse, NewPartitions
from raft.voters import VoterSet
from tests.support.voters import voters_of
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

ALONE, THREE = voters_of(1), voters_of(1, 2, 3)


def cluster_of(brokers: int, voters: VoterSet) -> Cluster:
    return Cluster(brokers, ControllerConfig(CLUSTER_ID), voters=voters)


def request(cluster: Cluster, broker_id: int = 1, factor: int = -1, **fields: object) -> CreateInternalTopicRequest:
    epoch = cluster.image.brokers[broker_id].broker_epoch if broker_id in cluster.image.brokers else 0
    wanted = {"name": CONSUMER_OFFSETS, "partitions": 50, "config": {"segment.bytes": "1048576"}, **fields}
    return CreateInternalTopicRequest(broker_id, epoch, replication_factor=factor, **wanted)  # type: ignore[arg-type]


def ask(cluster: Cluster, asked: CreateInternalTopicRequest) -> CreateInternalTopicResponse:
    return cluster.commit(cluster.controller.create_internal_topic(asked, cluster.now_ms))


def test_it_is_made_once_whoever_asks_for_it() -> None:
    cluster = cluster_of(3, THREE)
    made = ask(cluster, request(cluster))
    assert made.was_made
    for broker_id in (1, 2, 3):
        again = ask(cluster, request(cluster, broker_id, partitions=7))
        assert again == CreateInternalTopicResponse(made.topic_id, was_made=False)
    topic = cluster.image.topic(CONSUMER_OFFSETS)
    assert topic is not None and topic.topic_id == made.topic_id and len(topic.partitions) == 50
    assert cluster.image.topic_config(CONSUMER_OFFSETS) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1048576",
    }


@pytest.mark.parametrize(
    ("brokers", "voters", "factor"),
    [
        (1, ALONE, 1),
        (2, ALONE, 2),
        (3, ALONE, 3),
        (5, ALONE, 3),
        (3, THREE, 3),
        (5, THREE, 3),
        (3, voters_of(101), 3),
        (4, voters_of(101, 102, 103), 3),
    ],
)
def test_without_a_factor_it_has_as_many_replicas_as_the_cluster_has_brokers_for(
    brokers: int, voters: VoterSet, factor: int
) -> None:
    cluster = cluster_of(brokers, voters)
    ask(cluster, request(cluster))
    topic = cluster.image.topic(CONSUMER_OFFSETS)
    assert topic is not None and {len(state.replicas) for state in topic.partitions.values()} == {factor}


@pytest.mark.parametrize(("brokers", "voters"), [(1, THREE), (2, THREE), (1, voters_of(101)), (2, voters_of(101))])
def test_brokers_that_are_slow_to_start_do_not_cost_it_replicas(brokers: int, voters: VoterSet) -> None:
    cluster = cluster_of(brokers, voters)
    with pytest.raises(
        InvalidReplicationFactorError, match=f"replication.factor = 3 of .* registered brokers, {brokers};"
    ):
        ask(cluster, request(cluster))
    for broker_id in range(brokers + 1, 4):
        cluster.start(broker_id)
    assert ask(cluster, request(cluster)).was_made


def test_it_goes_by_the_voters_that_the_quorum_has_when_it_is_asked_for() -> None:
    cluster = cluster_of(1, THREE)
    with pytest.raises(InvalidReplicationFactorError):
        ask(cluster, request(cluster))
    cluster.voters = ALONE
    assert ask(cluster, request(cluster)).was_made


def test_a_factor_that_is_given_counts() -> None:
    cluster = cluster_of(1, THREE)
    assert ask(cluster, request(cluster, factor=1)).was_made


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_it_is_made_while_one_of_three_is_away(name: str) -> None:
    cluster = cluster_of(3, THREE)
    cluster.let_die(3)
    ask(cluster, request(cluster, name=name, config={"min.insync.replicas": "2"}))
    topic = cluster.image.topic(name)
    assert topic is not None
    for state in topic.partitions.values():
        assert sorted(state.replicas) == [1, 2, 3] and sorted(state.isr) == [1, 2]
    assert sum(state.leader_id == 1 for state in topic.partitions.values()) == 25
    assert cluster.image.topic_config(name)["min.insync.replicas"] == "2"


def test_it_waits_for_a_broker_that_is_starting_which_then_leads_its_share() -> None:
    cluster = cluster_of(2, THREE)
    cluster.register(3)
    with pytest.raises(InvalidReplicationFactorError, match="waits for broker 3, which is starting"):
        ask(cluster, request(cluster))
    assert not cluster.image.topics_by_id
    cluster.heartbeat(3)
    ask(cluster, request(cluster))
    topic = cluster.image.topic(CONSUMER_OFFSETS)
    assert topic is not None
    assert sorted(Counter(state.leader_id for state in topic.partitions.values()).values()) == [16, 17, 17]


def test_a_broker_that_is_always_starting_keeps_it_back_for_one_session() -> None:
    cluster = cluster_of(2, THREE)
    cluster.register(3)
    with pytest.raises(InvalidReplicationFactorError, match="is starting"):
        ask(cluster, request(cluster))
    cluster.now_ms += SESSION_TIMEOUT_MS - 1
    cluster.register(3, previous_broker_epoch=cluster.image.brokers[3].broker_epoch)  # the next process
    with pytest.raises(InvalidReplicationFactorError, match="is starting"):
        ask(cluster, request(cluster))
    cluster.now_ms += 1
    assert ask(cluster, request(cluster)).was_made
    topic = cluster.image.topic(CONSUMER_OFFSETS)
    assert topic is not None and all(sorted(state.isr) == [1, 2] for state in topic.partitions.values())


REFUSED: dict[str, tuple[dict[str, object], type[ApiError]]] = {
    "an unknown broker": ({"broker_id": 9}, BrokerIdNotRegisteredError),
    "a user's topic": ({"name": "orders"}, InvalidTopicError),
    "the quorum's log": ({"name": "__cluster_metadata"}, InvalidTopicError),
    "no partitions": ({"partitions": 0}, InvalidPartitionsError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    fields, error = REFUSED[what]
    cluster = cluster_of(1, ALONE)
    with pytest.raises(error):
        ask(cluster, request(cluster, **fields))  # type: ignore[arg-type]
    assert not cluster.image.topics_by_id


def test_a_broker_of_another_epoch_is_refused() -> None:
    cluster = cluster_of(1, ALONE)
    asked = replace(request(cluster), broker_epoch=cluster.image.brokers[1].broker_epoch + 1)
    with pytest.raises(StaleBrokerEpochError):
        ask(cluster, asked)


def test_it_keeps_its_number_of_partitions() -> None:
    cluster = cluster_of(1, ALONE)
    ask(cluster, request(cluster))
    (result,) = cluster.add_partitions(NewPartitions(CONSUMER_OFFSETS, 60))
    assert isinstance(result.error, InvalidTopicError) and "keeps its number" in str(result.error)


@pytest.mark.parametrize(
    ("brokers", "factor", "wanted", "given"),
    [(1, -1, "2", "1"), (3, -1, "2", "2"), (3, 1, "2", "1"), (3, -1, "1", "1")],
)
def test_it_is_never_made_with_fewer_replicas_than_must_be_in_sync(
    brokers: int, factor: int, wanted: str, given: str
) -> None:
    cluster = cluster_of(brokers, voters_of(*range(1, brokers + 1)))
    config = {"min.insync.replicas": wanted}
    ask(cluster, request(cluster, factor=factor, name=TRANSACTION_STATE, partitions=2, config=config))
    assert cluster.image.topic_config(TRANSACTION_STATE)["min.insync.replicas"] == given
