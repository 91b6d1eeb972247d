"""Snapshots of the metadata at real nodes: one that was away takes one from the leader, and has the same metadata."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from storage.disk.file_names import parse_metadata_snapshot
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

SOON = {"metadata.log.max.record.bytes.between.snapshots": 2_000, "metadata.max.retention.bytes": 1}
VALUES = [b"%d" % n for n in range(20)]


def shown(cluster: Cluster, node: int, metric: str) -> float:
    with urllib.request.urlopen(cluster.metrics_url(node), timeout=60) as page:
        found = re.search(rf"^{metric}(?:{{.*}})? (\S+)$", page.read().decode(), re.MULTILINE)
    assert found is not None, metric
    return float(found[1])


def names(cluster: Cluster, node: int) -> list[str]:
    directory: Path = cluster.directory(node) / "__cluster_metadata-0"
    return sorted(path.name for path in directory.iterdir())


def test_a_node_that_was_away_takes_a_snapshot_and_every_node_starts_from_its_own() -> None:
    with Cluster(nodes=3, config=SOON) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", 1, 3)
        with Producer(cluster.bootstrap, acks="all") as producer:
            for value in VALUES:
                producer.send("orders", value=value).result(60)
            away = (cluster.controller() + 1) % 3
            cluster.kill(away)
            behind = shown(cluster, cluster.controller(), "penstock_metadata_offset")
            for number in range(4):
                admin.create_topic(f"topic-{number}", 10, 2)
            wait_until(
                lambda: shown(cluster, cluster.controller(), "penstock_metadata_snapshot_end_offset") > behind + 20
            )
            cluster.start(away)
            wait_until(lambda: shown(cluster, away, "penstock_quorum_snapshots_installed_total") >= 1)
            cluster.wait_in_sync()
            for value in VALUES:
                producer.send("orders", value=value).result(60)
        done = penstock("metadata", "digest", "--bootstrap", cluster.bootstrap, "--json")
        running = json.loads(done.stdout)
        assert done.returncode == 0 and len({(row["offset"], row["sha256"]) for row in running}) == 1, done
        done = penstock("metadata", "dump", "--bootstrap", cluster.bootstrap, "--node", away)
        assert done.stdout.replace(b" ", b"").count(b'"type":"Topic"') == 5
        topics = admin.list_topics()
        for node in range(3):
            wait_until(lambda node=node: any(parse_metadata_snapshot(name) for name in names(cluster, node)))
            wait_until(lambda node=node: f"{0:020d}.log" not in names(cluster, node))  # what the snapshot has is cut
        assert cluster.stop_all() == [0, 0, 0]
        cluster.heal()
        cluster.wait_in_sync()
        assert admin.list_topics() == topics
        wait_until(lambda: len({shown(cluster, node, "penstock_quorum_log_end_offset") for node in range(3)}) == 1)
        done = penstock("metadata", "digest", *(cluster.directory(node) for node in range(3)), "--json")
        digests = json.loads(done.stdout)
        assert done.returncode == 0 and len({row["sha256"] for row in digests}) == 1
        done = penstock("metadata", "dump", cluster.directory(0), "--at", digests[0]["offset"])
        assert done.stdout.replace(b" ", b"").count(b'"type":"Topic"') == 5
        assert digests[0]["sha256"].encode() in done.stderr
        assert penstock("metadata", "digest", cluster.directory(0).parent).returncode == 2
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            read: list[bytes | None] = []
            while len(read) < 2 * len(VALUES):
                read += [record.value for record in consumer.poll(60_000)]
        assert read == VALUES * 2
