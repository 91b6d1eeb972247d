"""A voter whose metadata log directory vanished: it asks the others and then votes again; the only voter refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock import Admin
from penstock.local_nodes.node_process import NodeFailedError
from penstock.testing import Cluster
from tests.integration.test_cluster import wait_until

METADATA = "__cluster_metadata-0"


def lose_metadata_log(cluster: Cluster, index: int) -> None:
    cluster.kill(index)
    shutil.rmtree(next(cluster.directory(index).rglob(METADATA)))


def test_voter_that_lost_its_metadata_log_comes_back_and_its_vote_elects_again(tmp_path: Path) -> None:
    with Cluster(nodes=3, directory=tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic("before", partitions=1, replication_factor=3)
        leader = admin.describe_quorum().leader_id
        lost = (leader + 1) % 3
        lose_metadata_log(cluster, lost)
        cluster.start(lost)
        wait_until(lambda: f"voter {lost}: it takes part" in cluster.log_path(lost).read_text())
        assert "it has forgotten what it promised (votes)" in cluster.log_path(lost).read_text()
        cluster.kill(leader)  # the two that are left need each other's vote
        wait_until(lambda: admin.describe_quorum().leader_id != leader)
        assert "before" in admin.list_topics()


def test_only_voter_that_lost_its_metadata_log_refuses_to_start(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path) as cluster:
        lose_metadata_log(cluster, 0)
        with pytest.raises(
            NodeFailedError,
            match=rf"(?s)ended with code 2; .*{METADATA}/quorum-state: .*only voter.*data-directory\.md",
        ):
            cluster.start(0)
