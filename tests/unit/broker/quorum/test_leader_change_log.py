"""A partition without a leader says why and what can be done, in the log, in the metadata answer, and by a label."""

from __future__ import annotations

import logging
from typing import Any

from broker.apis.cluster.metadata import MetadataApi
from broker.apis.cluster.topic_views import TopicViews
from broker.network.request_channel import Request
from broker.quorum.leader_change_log import NAMED_MAX, Line, leader_change_lines
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.lost_replicas import LostReplicas
from metadata.offline import OfflineReason, offline_reason
from penstock.errors import CorruptFileError, LeaderNotAvailableError
from penstock.messages.metadata import MetadataRequest
from penstock.messages.nodes.brokers import HostedReplicas
from penstock.types import TopicPartition
from tests.support.machine import NOW_NS
from tests.support.received import as_received
from tests.support.sinks import CALLER, Sink
from tests.unit.metadata.harness import Cluster

NOTHING_LOST = LostReplicas(HostedPartitions(1))


def alone(partitions: int = 1) -> Cluster:
    """Broker 1 with one log dir leads every partition of a topic with one replica."""
    cluster = Cluster()
    cluster.start(1, log_dirs=("a",))
    cluster.create("t", partitions=partitions)
    cluster.controller.take_leader_changes()
    return cluster


def said(cluster: Cluster) -> list[Line]:
    return leader_change_lines(cluster.controller.take_leader_changes(), cluster.controller)


def reason(cluster: Cluster) -> OfflineReason | None:
    return offline_reason(cluster.partition("t"), cluster.image)


def loses_its_log(cluster: Cluster) -> None:
    cluster.let_die(1)
    cluster.start(1, log_dirs=("new",), lost_log_dirs=("a",), replicas=(HostedReplicas("other", (0,)),))


def test_partition_whose_broker_is_down_names_the_broker_to_start() -> None:
    cluster = alone()
    assert reason(cluster) is None
    cluster.let_die(1)
    assert reason(cluster) is OfflineReason.ISR_OUT_OF_SERVICE
    (line,) = said(cluster)
    assert "t-0 has no leader: no broker with an in-sync replica (1: fenced) is in service. Start one" in line.text
    cluster.start(1, log_dirs=("a",))
    assert reason(cluster) is None and said(cluster) == []


def test_partition_names_each_broker_that_it_waits_for_and_how_it_stands() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", replication_factor=3, config={"min.insync.replicas": "2"})
    cluster.let_die(1, 2, 3)
    cluster.controller.take_leader_changes()
    (last,) = cluster.partition("t").isr
    one, other = cluster.partition("t").elr
    waiting = str(metadata_answer(cluster).topics[0].partitions[0].error)
    assert f"an in-sync replica ({last}: fenced) or an eligible one ({one}: fenced, {other}: fenced)" in waiting
    assert metadata_answer(cluster).topics[0].partitions[0].elr == (one, other)
    cluster.start(one)  # without its log
    waiting = str(metadata_answer(cluster).topics[0].partitions[0].error)
    assert f"({last}: fenced) or an eligible one ({other}: fenced) is in service" in waiting


def test_partition_whose_log_is_lost_says_what_can_be_done() -> None:
    cluster = alone()
    loses_its_log(cluster)
    assert reason(cluster) is OfflineReason.LOG_LOST
    for remedy in ("Start that broker with that log dir", "elect-leaders TOPIC --unclean", "delete the topic"):
        assert remedy in str(metadata_answer(cluster).topics[0].partitions[0].error)


def test_unclean_election_is_an_error_in_the_log() -> None:
    cluster = alone()
    loses_its_log(cluster)
    said(cluster)
    cluster.configure("t", {"unclean.leader.election.enable": "true"})
    (line,) = said(cluster)
    assert line.text.startswith("unclean election: t-0 is led by broker 1") and line.level == logging.ERROR


def test_broker_that_takes_many_leaders_with_it_costs_a_few_lines() -> None:
    cluster = alone(partitions=NAMED_MAX + 7)
    cluster.let_die(1)
    lines = said(cluster)
    assert len(lines) == NAMED_MAX + 1 and lines[-1].text == "and 7 more partitions without a leader"


def metadata_answer(cluster: Cluster, lost: LostReplicas = NOTHING_LOST) -> Any:
    """The metadata as a client reads it."""
    request = Request("Metadata", body := MetadataRequest(None), Sink(), CALLER, NOW_NS)
    views = TopicViews(lost.broker_id, lost.why_offline)
    MetadataApi("cluster-1", lambda: cluster.image, lambda: 1, views).handle(request, body)
    return as_received(request)


def test_metadata_answer_carries_the_reason_to_the_client() -> None:
    cluster = alone()
    assert metadata_answer(cluster).topics[0].partitions[0].error is None
    cluster.let_die(1)
    error = metadata_answer(cluster).topics[0].partitions[0].error
    assert isinstance(error, LeaderNotAvailableError) and "Start one of them" in str(error)


def test_leader_whose_log_is_rotten_says_in_its_metadata_answer_why_the_partition_is_offline() -> None:
    cluster = alone()
    rot = CorruptFileError("/d/t-0/00000000000000000000.log", 17, "the checksum is wrong")
    for broker_id in (1, 2):
        lost = LostReplicas(HostedPartitions(broker_id))
        lost.found(TopicPartition("t", 0), rot)
        partition = metadata_answer(cluster, lost).topics[0].partitions[0]
        if broker_id == 2:
            assert partition.error is None, "another one's replica"
            continue
        assert partition.leader_id == 1, "nobody else may lead"
        assert isinstance(partition.error, LeaderNotAvailableError)
        for word in ("offline on its leader, broker 1", "the checksum is wrong", "restore the file"):
            assert word in str(partition.error)
