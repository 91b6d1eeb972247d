"""Makes docs/metrics.md from a live node's metrics: `python -m tests.support.metrics_page > docs/metrics.md`.

A test compares the page with a node, so no metric can be added, renamed or removed without its line.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client.parser import text_string_to_metric_families

from broker.host.host_core import NodeState
from broker.host.host_pages import HostReadings, NodeFacts
from broker.metrics.metrics_text import metrics_text
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.certificates import TestCa
from tests.support.issuer import Issuer
from tests.support.kafka_metric_names import KAFKA_NAMES

INTRODUCTION = """# Metrics

Made by `python -m tests.support.metrics_page` from what a node shows at `metrics.listener`; do not edit by hand.
Beside these stand Prometheus' own `process_*`. A histogram has `_bucket`, `_sum` and `_count`. The dashboards and the
alerts in [`ops/`](../ops/README.md) use them. `penstock dev` says where its nodes show theirs: `http://127.0.0.1:9392/metrics`
for node 0, 9393 for node 1 and so on; with `--port PORT`, from PORT + 200 on.

**Idle** is capacity that is left. All of a node's work shares one event loop; so idle time is the time in which the
loop had nothing to do and one of the node's processors was free. The idle share of the request handlers, or of decoding
and encoding, is that idle time in the last minute, divided by itself plus what this kind of work took; waiting for a
processor counts as busy. It is near 1 when there is nothing to do, and 0 when the loop or the processors have no time
left, whoever took it: the node, its neighbours, a batch job. Read it as Kafka's `RequestHandlerAvgIdlePercent` and
`NetworkProcessorAvgIdlePercent`. `python -m benchmarks.idle_gauges` holds both against known loads. A name of Kafka
beside a metric: that metric of Kafka says the same.

**A busy node or a busy machine?** The idle shares say what is left. `penstock_neighbours_busy_ratio` says what others
than the node took of its processors, and `penstock_event_loop_busy_ratio` how much the node itself had to do. Little
idle and a busy loop: the node. Little idle, busy neighbours and a loop at rest: the machine.

**I/O threads** (`num.io.threads`) read what is not in the page cache. Their processor time counts with the request
handlers'; the time in which they wait for a disk does not, because requests that need no disk are handled meanwhile.
`penstock_io_threads_busy` and `penstock_io_queue_size` show how much waits for disks, `penstock_cold_reads_total` how
much of what is read is not in the page cache.

| metric | type | labels | meaning | Kafka |
| --- | --- | --- | --- | --- |
"""
OF_HISTOGRAMS = {"le"}
CA, ISSUER = TestCa(), Issuer(now_s=int(time.time()))


def wait_until_empty(missing: Callable[[], list[str]], timeout_s: float = 60.0) -> None:
    """Asks again and again, a little apart; fails with what is still missing in the end."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while found := missing():
        assert time.monotonic() < deadline, found
        pause.wait(0.1)


def use_a_topic(cluster: Cluster) -> None:
    """Creates, writes and reads one, and commits a transaction and an offset, so that every kind of request has been
    answered."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", partitions=1)
    with Producer(cluster.bootstrap) as producer:
        for _ in range(5):  # the last answer before a stream closes may go uncounted
            producer.send("orders", value=b"v").result(30)
    with Producer(cluster.bootstrap, transactional_id="till-1") as producer:
        producer.begin_transaction()
        producer.send("orders", value=b"v")
        producer.commit_transaction()
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        wait_until_empty(lambda: [] if len(consumer.poll(timeout_ms=200)) else ["the record"])
    with Admin(cluster.bootstrap) as admin:
        admin.alter_group_offsets("shop", {TopicPartition("orders", 0): 1})
    wait_until_empty(lambda: [] if "penstock_group_partition_lag{" in shown(cluster) else ["the lag of the group"])


def shown(cluster: Cluster) -> str:
    """The first node's answer to a scrape."""
    return shown_by(cluster, 0)


def shown_by(cluster: Cluster, node: int) -> str:
    with urllib.request.urlopen(cluster.metrics_url(node), timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def page(text: str) -> str:
    """The page, of one scrape."""
    rows = []
    for family in text_string_to_metric_families(text + metrics_text(HostReadings([a_node_of_a_host()], set()))):
        if family.name.startswith("penstock_"):
            name = family.name + "_total" * (family.type == "counter")
            kafka = KAFKA_NAMES.get(name, "")
            labels = sorted({label for sample in family.samples for label in sample.labels} - OF_HISTOGRAMS)
            cells = (f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), family.documentation, kafka)
            rows.append(f"| {' | '.join(cells)} |\n")
    return INTRODUCTION + "".join(sorted(rows))


def a_node_of_a_host() -> NodeFacts:
    """So the page has what the page of a host says beside its nodes' metrics."""
    return NodeFacts(1, "host:9392", None, NodeState.RUNNING, 0)


@contextmanager
def cluster_of_the_page(nodes: int = 1) -> Iterator[Cluster]:
    """Nodes that show every metric: their listener for Kafka's clients has a certificate of CA, and takes tokens."""
    with TemporaryDirectory() as directory:
        keystore = Path(directory, "node.pem")
        keystore.write_bytes(CA.node(0))
        security = {
            "listener.security.protocol.map": "BROKER:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,KAFKA:SASL_SSL",
            "ssl.keystore.location": str(keystore),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": ISSUER.publish(Path(directory, "keys.json")),
        }
        with Cluster(nodes, security) as cluster:
            yield cluster


def main() -> None:
    with cluster_of_the_page() as cluster:
        use_a_topic(cluster)
        sys.stdout.write(page(shown(cluster)))


if __name__ == "__main__":
    main()
