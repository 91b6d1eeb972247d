"""Three real nodes whose voters stand in their configuration, and then in the log: by the commands and both protocols.

Disks that are replaced are shown at whole nodes in one process (tests/unit/broker/node/test_voters_by_admin.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    Listener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from penstock import Admin
from penstock.errors import UnsupportedVersionError
from penstock.local_nodes.node_process import NodeFailedError
from penstock.testing import Cluster
from penstock.testing.ports import free_ports
from tests.support.command_line import penstock
from tests.support.fleet import Fleet
from tests.support.kafka_socket import KafkaSocket
from tests.support.voters import disk_of
from tests.support.waiting import wait_until

POLICY_VIOLATION, CONTROLLER_ID_NOT_REGISTERED = 44, 136
REMEDY = "penstock quorum make-dynamic"
UNSUPPORTED_VERSION = 35


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return [found.kafka for found in free_ports(3)]


@pytest.fixture(scope="module")
def cluster(ports: list[int]) -> Iterator[Cluster]:
    with Cluster(3, kafka_ports=ports) as running:
        yield running


def test_every_node_refuses_to_change_a_static_quorum_and_names_the_remedy(cluster: Cluster) -> None:
    for index in range(3):
        with Admin(cluster.bootstrap.split(",")[index]) as admin:
            for change in (
                lambda admin: admin.add_voter(7, disk_of(7), "127.0.0.1:9"),
                lambda admin: admin.remove_voter(1, disk_of(1)),
            ):
                with pytest.raises(UnsupportedVersionError, match=REMEDY):
                    change(admin)
            found = admin.describe_quorum()
            assert not found.is_dynamic and [voter.node_id for voter in found.voters] == [0, 1, 2]


def test_so_do_the_commands_and_they_show_the_voters(cluster: Cluster) -> None:
    shown = penstock("quorum", "describe", "--json", bootstrap=cluster.bootstrap)
    document = json.loads(shown.stdout)
    assert shown.returncode == 0 and not document["is_dynamic"]
    assert [len(voter["endpoints"]) for voter in document["voters"]] == [1, 1, 1]
    assert all(voter["lag"] is not None and voter["last_caught_up_ms_ago"] > 0 for voter in document["voters"])
    address = cluster_address(document)
    refused = penstock("quorum", "add-voter", f"7@{address}:{disk_of(7)}", bootstrap=cluster.bootstrap)
    assert refused.returncode == 1 and REMEDY in refused.stderr.decode()
    by_file = penstock("quorum", "add-voter", "--config", cluster.config_path(0), "--json", bootstrap=cluster.bootstrap)
    assert json.loads(by_file.stderr)["error"]["code"] == UNSUPPORTED_VERSION, "the file was read, and the quorum asked"


def cluster_address(document: dict[str, list[dict[str, list[dict[str, object]]]]]) -> str:
    at = document["voters"][0]["endpoints"][0]
    return f"{at['host']}:{at['port']}"


def test_so_does_kafkas_protocol(cluster: Cluster, ports: list[int]) -> None:
    listeners = [Listener(name="CONTROLLER", host="127.0.0.1", port=9)]
    adding = AddRaftVoterRequest(timeout_ms=5_000, voter_id=7, voter_directory_id=disk_of(7), listeners=listeners)
    removing = RemoveRaftVoterRequest(voter_id=1, voter_directory_id=disk_of(1))
    topic = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    for port in ports:
        with KafkaSocket(f"127.0.0.1:{port}") as socket:
            for body, response in ((adding, AddRaftVoterResponse), (removing, RemoveRaftVoterResponse)):
                answer = socket.ask(body, 0, response)
                assert answer.error_code == UNSUPPORTED_VERSION and REMEDY in str(answer.error_message)
            described = socket.ask(DescribeQuorumRequest(topics=[topic]), 2, DescribeQuorumResponse)
            assert [node.node_id for node in described.nodes] == [0, 1, 2]
            assert all(node.listeners[0].name == "CONTROLLER" for node in described.nodes)


def shown_voters(bootstrap: str) -> dict[int, str]:
    """The voters as `quorum describe` shows them, by their ids."""
    lines = penstock("quorum", "describe", bootstrap=bootstrap).stdout.decode().splitlines()
    rows = [line.split("\t") for line in lines if "\tvoter\t" in line]
    return {int(row[0]): row[-1] for row in rows}


def test_the_commands_and_kafkas_protocol_change_the_voters_of_running_nodes() -> None:
    ports = [found.kafka for found in free_ports(3)]
    with Cluster(3, kafka_ports=ports) as cluster, KafkaSocket(f"127.0.0.1:{ports[0]}") as kafka:
        made = penstock("quorum", "make-dynamic", bootstrap=cluster.bootstrap)
        assert made.stdout == b"the quorum is dynamic\n", made.stderr
        voters = shown_voters(cluster.bootstrap)
        with Admin(cluster.bootstrap) as admin:
            leader_id = admin.describe_quorum().leader_id
            one, two = (node_id for node_id in (0, 1, 2) if node_id != leader_id)

            removed = penstock("quorum", "remove-voter", voters[one], bootstrap=cluster.bootstrap)
            assert removed.stdout.decode() == f"voter {voters[one]} removed\n", removed.stderr
            added = penstock("quorum", "add-voter", "--config", cluster.config_path(one), bootstrap=cluster.bootstrap)
            assert added.stdout.decode() == f"voter {voters[one]} added\n", "by its files it is the voter that it was"

            number, _, directory_id = voters[two].rpartition(":")
            host, port = number.partition("@")[2].split(":")
            removing = RemoveRaftVoterRequest(voter_id=two, voter_directory_id=directory_id)
            assert kafka.ask(removing, 0, RemoveRaftVoterResponse).error_code == 0
            assert two not in shown_voters(cluster.bootstrap)
            for node_id, code in ((two, POLICY_VIOLATION), (99, CONTROLLER_ID_NOT_REGISTERED)):
                forgetting = UnregisterControllerRequest(controller_id=node_id)
                assert kafka.ask(forgetting, 0, UnregisterControllerResponse).error_code == code
            adding = AddRaftVoterRequest(
                timeout_ms=30_000,
                voter_id=two,
                voter_directory_id=directory_id,
                listeners=[Listener(name="CONTROLLER", host=host, port=int(port))],
            )
            assert kafka.ask(adding, 1, AddRaftVoterResponse).error_code == 0
            assert kafka.ask(adding, 1, AddRaftVoterResponse).error_code == 126, "as from Kafka"
            assert shown_voters(cluster.bootstrap) == voters

            gone = penstock("quorum", "remove-voter", voters[leader_id], "--yes", bootstrap=cluster.bootstrap)
            assert gone.returncode == 0, gone.stderr
            wait_until(lambda: (found := admin.describe_quorum()).has_leader and found.leader_id != leader_id)
            admin.create_topic("after", 1, 3)

        cluster.stop(leader_id)
        others = ",".join(at for node_id, at in enumerate(cluster.bootstrap.split(",")) if node_id != leader_id)

        def is_forgotten() -> bool:
            asked = penstock("quorum", "unregister", str(leader_id), bootstrap=others)
            assert asked.returncode == 0 or "within the last" in asked.stderr.decode(), asked.stderr
            return asked.returncode == 0

        wait_until(is_forgotten)
        with Admin(others) as admin:
            assert leader_id not in {one.node_id for one in admin.describe_quorum().observers}


def test_a_controller_that_would_begin_a_second_quorum_of_a_cluster_is_refused(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    first, second = fleet.controllers[:2]
    with fleet.running():
        for node in (first, second):
            fleet.make(node)
            fleet.format(node, "--standalone")
        fleet.start(first)
        with pytest.raises(NodeFailedError, match=f"has a quorum already.* led by controller {first}"):
            fleet.start(second)
        fleet.empty(second)
