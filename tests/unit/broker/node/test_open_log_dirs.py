"""A start with a wrong configuration leaves the disks as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.node.open_log_dirs import open_log_dirs
from broker.quorum.metadata_log import METADATA_PARTITION
from penstock.errors import ConfigError
from penstock.types import Endpoint
from tests.support.memory_cluster import MemoryCluster, run_in_memory


def test_a_voter_with_other_voters_is_refused_before_a_log_is_cut() -> None:
    """The only voter cuts nothing that may have been acked; with two more by mistake it would."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        await cluster.cut_power()
        config, disk = cluster.config(0), cluster.disks[0]
        directory = f"{config.metadata_log_dir}/{METADATA_PARTITION}"
        newest = f"{directory}/00000000000000000000.log"
        disk.damage(newest, disk.size(newest) - 1, 1)
        before = {name: disk.read_file(f"{directory}/{name}") for name in disk.listdir(directory)}
        voters = {node_id: Endpoint("127.0.0.1", 9_292 + node_id) for node_id in range(3)}
        wrong = replace(config, controller_quorum_voters=voters)
        with pytest.raises(ConfigError, match=r"ids \[0, 1, 2\].*voted among \[0\]"):
            open_log_dirs(wrong, cluster.environment(0), lambda progress: None)
        assert {name: disk.read_file(f"{directory}/{name}") for name in disk.listdir(directory)} == before

    run_in_memory(1, story, nodes=1)
