"""With one of three nodes killed, clients of Kafka make their first topics, groups and transactions; operators go on.

The node is dead before anything was made, so the cluster's own topics are made without it. In memory every act is tried
at every kind of absence (tests/unit/broker/node/test_absence.py); here are processes, sockets and clients that nobody
here wrote.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock import Admin, TopicPartition
from penstock.testing import Cluster
from tests.interop.drivers.first_things import CLIENTS, PARTITIONS, VALUE
from tests.support.amount import at_night
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

DEAD = 2
WAIT_S = 60
CLIENT_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        cluster.kill(DEAD)
        yield cluster


@pytest.mark.parametrize("client", at_night(CLIENTS, [*CLIENTS][1:]))
def test_a_client_of_kafka_makes_a_topic_commits_a_transaction_and_reads_it_in_a_group(
    cluster: Cluster, client: str
) -> None:
    command = [sys.executable, "-m", "tests.interop.drivers.first_things", client, cluster.kafka_bootstrap]
    done = subprocess.run(command, capture_output=True, timeout=CLIENT_S, check=False)
    assert (done.returncode, done.stdout) == (0, VALUE), done.stderr.decode()
    with Admin(cluster.bootstrap) as admin:
        partitions = admin.describe_topic(client).partitions
    assert len(partitions) == PARTITIONS and all(len(partition.replicas) == 3 for partition in partitions)


def done_by(cluster: Cluster, *words: object) -> None:
    """The command, which succeeds."""
    done = penstock(*words, bootstrap=cluster.bootstrap)
    assert done.returncode == 0, done.stderr.decode()


def test_operators_go_on_and_the_dead_node_gets_its_share_when_it_is_back(cluster: Cluster) -> None:
    done_by(cluster, "topics", "create", "orders", "-p", PARTITIONS, "-r", 3)
    done_by(cluster, "topics", "create", "by-hand", "--replica-assignment", f"{DEAD}:0")
    done_by(cluster, "topics", "alter", "orders", "-p", PARTITIONS + 3)
    done_by(cluster, "cluster", "balance", "--dry-run")
    drained = penstock("brokers", "drain", DEAD, "--dry-run", bootstrap=cluster.bootstrap)
    assert drained.returncode and b"start another broker first" in drained.stderr, "two brokers have no room for three"
    with Admin(cluster.bootstrap) as admin:
        assert {"__consumer_offsets", "__transaction_state"} <= set(admin.list_topics())
        partitions = [p for topic in admin.describe_topics() for p in topic.partitions]
        assert all(DEAD not in partition.isr and partition.leader_id != DEAD for partition in partitions)
        cluster.start(DEAD)
        wait_until(
            lambda: all(len(p.isr) == len(p.replicas) for t in admin.describe_topics() for p in t.partitions), WAIT_S
        )
        assert not any(partition.replicas[0] == DEAD for partition in admin.describe_topic("orders").partitions)
        done_by(cluster, "cluster", "balance")
        leaders = [p.replicas[0] for t in admin.describe_topics() for p in t.partitions]
        assert max(map(leaders.count, range(3))) - min(map(leaders.count, range(3))) <= 1, leaders
        assert admin.list_partition_reassignments() == {}
        admin.elect_leaders()
        assert admin.describe_topic("by-hand").partitions[0].leader_id == DEAD
        assert TopicPartition("by-hand", 0) not in admin.elect_leaders()
