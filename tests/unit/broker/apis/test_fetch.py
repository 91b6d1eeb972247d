"""Promises about who may fetch as a replica: such a fetch acknowledges, so it must be the registered broker's own."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from broker.apis.fetch import FetchApi
from broker.apis.fetch_sessions.fetch_session import FetchSession
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from penstock.clock import ManualClock
from penstock.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    InconsistentClusterIdError,
    ReplicaNotAvailableError,
    StaleBrokerEpochError,
)
from penstock.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from tests.support.machine import NOW_NS
from tests.support.memory import unlimited
from tests.support.partitions import PARTITION, TOPIC_ID, batch, flush, make_partition, state
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER, Sink
from tests.support.stepped_io import SteppedIo

CLUSTER_ID, LEADER_EPOCH = "cluster-1", 5
EPOCHS = {1: 101, 2: 102, 3: 103, 4: 104}


def leader(path: Path) -> Partition:
    """Leads with replicas 1, 2 and 3 in sync, and has one record of its own."""
    partition = make_partition(path)
    partition.become_leader(state(leader_id=1, leader_epoch=LEADER_EPOCH), 0)
    partition.append_as_leader(batch(b"a"), -1, 0, 1_700_000_000_000)
    flush(partition)
    return partition


def fetch(partition: Partition, replica_id: int, broker_epoch: int, cluster_id: str = CLUSTER_ID) -> ApiError | None:
    """The replica fetches at the leader's end; the error of the partition, or raised for the request."""
    session = FetchSession(
        lambda key, topic_id: partition,
        ManualClock(),
        1 << 20,
        lambda results, size, is_replica: None,
        unlimited(),
        FailedRequests(pytest.fail).fail,
        SteppedIo(),
        MoveThrottle(),
        leaders_alone(),
    )
    wanted = FetchPartition(PARTITION, TOPIC_ID, 1, LEADER_EPOCH, LEADER_EPOCH, 0)
    body = FetchRequest(replica_id, broker_epoch, 0, 0, 1000, [wanted], [], cluster_id=cluster_id)
    request = Request("Fetch", body, Sink(), CALLER, NOW_NS, session=session)
    FetchApi(lambda: EPOCHS, CLUSTER_ID).handle(request, body)
    answered = cast(FetchResponse, request.response).partitions
    return answered[0].error if answered else None


def test_registered_followers_acknowledge_what_is_below_their_fetch(tmp_path: Path) -> None:
    partition = leader(tmp_path)
    assert fetch(partition, 2, EPOCHS[2]) is None and fetch(partition, 3, EPOCHS[3]) is None
    assert partition.high_watermark == 1


@pytest.mark.parametrize(
    ("broker_epoch", "error"),
    [
        (-1, StaleBrokerEpochError),
        (101, StaleBrokerEpochError),
        (103, ReplicaNotAvailableError),
        (1 << 60, ReplicaNotAvailableError),
    ],
)
def test_fetch_under_another_broker_epoch_than_the_registered_acknowledges_nothing(
    tmp_path: Path, broker_epoch: int, error: type[ApiError]
) -> None:
    partition = leader(tmp_path)
    fetch(partition, 3, EPOCHS[3])
    with pytest.raises(error, match=f"broker 2 fetches with epoch {broker_epoch}.*102"):
        fetch(partition, 2, broker_epoch)
    assert partition.high_watermark == 0
    assert partition.leading is not None and partition.leading.followers[2].log_end_offset == -1


def test_fetch_under_an_epoch_that_is_not_known_yet_may_be_tried_again() -> None:
    assert ReplicaNotAvailableError.retriable


def test_broker_that_is_no_replica_of_the_partition_acknowledges_nothing(tmp_path: Path) -> None:
    partition = leader(tmp_path)
    assert fetch(partition, 4, EPOCHS[4]) is not None
    assert partition.high_watermark == 0


def test_unregistered_replica_and_replica_of_another_cluster_are_refused(tmp_path: Path) -> None:
    partition = leader(tmp_path)
    with pytest.raises(BrokerIdNotRegisteredError):
        fetch(partition, 9, 109)
    with pytest.raises(InconsistentClusterIdError):
        fetch(partition, 2, EPOCHS[2], cluster_id="cluster-2")
