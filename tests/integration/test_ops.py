"""The operators' files against what they speak of: the dashboards and the alerts against a live cluster's metrics, the
example configuration against the loader, the unit and the rules against their own tools where those are installed.
"""

from __future__ import annotations

import math
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import grpc
import pytest

from broker.config.config import load_config
from broker.host.host_pages import HostReadings
from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from broker.kafka.schemas.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from ops.dashboards import DASHBOARDS
from ops.dashboards.draw import asker, filled_in, picture
from ops.dashboards.panels import queries_of
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.certs.authority import Authority
from penstock.pb import broker_pb2
from penstock.pipelines.frame.figures import BatchFigures, Figures
from penstock.sasl.oauthbearer import OAuthBearerClient
from penstock.spark.log_client import CLIENT_ID
from penstock.testing import Cluster
from penstock.testing.ports import free_ports
from tests.alerts_fire.stage import OF_THE_MACHINE
from tests.support.grpc_stub import Stub
from tests.support.kafka_metric_names import KAFKA_NAMES
from tests.support.kafka_socket import KafkaSocket
from tests.support.metrics_page import (
    CA,
    ISSUER,
    a_node_of_a_host,
    cluster_of_the_page,
    page,
    shown,
    use_a_topic,
    wait_until_empty,
)
from tests.support.otlp import CUMULATIVE, Number, push_of
from tests.support.prometheus import query, running_prometheus, write_config

UNITS = ("penstock@.service", "penstock-host.service", "penstock-console.service")
EXPOSURE_MAX = 2.0
"""systemd calls everything up to 2.0 safe, and up to 4.0 acceptable."""
OPS = Path(__file__).resolve().parents[2] / "ops"
BATCH = BatchFigures(
    rows=30, seconds=1.5, ended_at_seconds=100.0, late_rows=2, duplicate_rows=3, lag=11, dead_letters={"early": 1}
)
NAME = re.compile(r"\b(?:penstock|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def scrape() -> str:
    """The metrics of a node that has served a topic's life."""
    with cluster_of_the_page() as cluster:
        use_a_topic(cluster)
        return shown(cluster)


@pytest.fixture(scope="module")
def metrics(scrape: str) -> set[str]:
    """The names of its samples."""
    return {re.split(r"[{ ]", line)[0] for line in scrape.splitlines() if line and not line.startswith("#")}


def test_the_page_of_metrics_is_what_a_node_shows(scrape: str) -> None:
    written = (OPS.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert written == page(scrape), "python -m tests.support.metrics_page > docs/metrics.md"


def test_every_metric_with_a_name_in_kafka_is_shown(metrics: set[str]) -> None:
    assert not {name for name in KAFKA_NAMES if not metrics & {name, f"{name}_count"}}


def test_every_panel_asks_for_metrics_that_a_node_shows_and_every_metric_has_a_panel(metrics: set[str]) -> None:
    asked = {name for expression in panel_queries() for name in NAME.findall(expression)}
    of_others = (*used_job().registry.collect(), *HostReadings([a_node_of_a_host()], set()).collect())
    assert not asked - metrics - {sample.name for family in of_others for sample in family.samples}
    ours = {_family(name) for name in metrics if name.startswith("penstock_")}
    without = ours - {_family(name) for name in asked}
    assert not without, f"give each a panel in ops/dashboards/: {sorted(without)}"


def _family(name: str) -> str:
    """A histogram is one metric."""
    return re.sub(r"_(?:bucket|sum|count)$", "", name)


def test_every_alert_asks_for_metrics_that_a_node_shows(metrics: set[str]) -> None:
    asked = set(NAME.findall((OPS / "prometheus" / "alerts.yml").read_text(encoding="utf-8")))
    of_hosts = {sample.name for one in HostReadings([a_node_of_a_host()], set()).collect() for sample in one.samples}
    assert len(asked) >= 20 and not asked - metrics - of_hosts


def test_the_example_configuration_is_one_that_a_node_accepts() -> None:
    config = load_config(str(OPS / "config" / "node.toml"))
    assert config.min_insync_replicas == 2 and len(config.first_voters) == 3 and config.kafka_listeners == ("KAFKA",)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_every_panel_has_data_in_a_prometheus_that_scrapes_a_live_cluster(tmp_path: Path) -> None:
    with cluster_of_the_page(2) as cluster:
        write_config(tmp_path, cluster)
        port = free_ports(1)[0].metrics
        job = used_job(port)
        with (tmp_path / "prometheus.yml").open("a") as config:
            config.write(f"  - job_name: pipelines\n    static_configs:\n      - targets: ['127.0.0.1:{port}']\n")
        with running_prometheus(tmp_path) as api, used_topic(cluster) as use:
            wanted = {*panel_queries(), 'count(up{job="penstock"} == 1) == 2'}

            def without_data() -> list[str]:
                use()
                job.take("clicks", BATCH)
                wanted.difference_update([asked for asked in wanted if has_data(api, asked)])
                return sorted(wanted)

            wait_until_empty(without_data)
            pictures = [picture(dashboard, asker(api.removesuffix("/api/v1"), 1)) for dashboard in DASHBOARDS]
            groups = query(api, "rules")["groups"]
    assert not [drawn for drawn in pictures if "no data" in drawn]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 8
    assert {rule["health"] for rule in rules} == {"ok"}
    others = [rule for rule in rules if rule["name"] not in OF_THE_MACHINE]
    assert {rule["state"] for rule in others} == {"inactive"}, "those speak of this machine, which runs tests"


def used_job(port: int = 0) -> Figures:
    """The metrics of a pipeline's job that has run."""
    figures = Figures("gold", port)
    figures.take("clicks", BATCH)
    return figures


@contextmanager
def used_topic(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """A replicated topic, and a function that writes and reads it, and creates another, once more. It commits an
    offset for a group and a transaction, asks for a producer id, and in Kafka's protocol for a topic that there is
    not."""
    tls = ssl.create_default_context(cadata=CA.pem.decode())
    with (
        grpc.insecure_channel(cluster.bootstrap.split(",")[0]) as channel,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
        Producer(cluster.bootstrap, transactional_id="transfers-1") as transfers,
        Consumer(cluster.bootstrap, client_id=CLIENT_ID) as consumer,
        KafkaSocket(cluster.kafka_bootstrap.split(",")[0], tls) as kafka,
    ):
        software = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        kafka.ask(software, 3, ApiVersionsResponse)
        kafka.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1, SaslHandshakeResponse)
        message = OAuthBearerClient(ISSUER.token()).respond() or b""
        answer = kafka.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)
        assert not answer.error_code and not answer.auth_bytes
        unknown = MetadataRequest(topics=[MetadataRequestTopic(name="unknown")], allow_auto_topic_creation=False)
        admin.create_topic("orders", partitions=2, replication_factor=2)
        admin.alter_client_metrics("all", {"metrics": "*", "interval.ms": 3_000})
        subscription = kafka.ask(GetTelemetrySubscriptionsRequest(), 0, GetTelemetrySubscriptionsResponse)
        consumer.assign([TopicPartition("orders", partition) for partition in range(2)])
        consumer.seek_to_beginning()

        numbers = count()

        def use() -> None:
            for partition in range(2):
                producer.send("orders", value=b"v", partition=partition).result(60)
            with transfers.transaction() as transaction:
                transaction.send("orders", b"v")
            consumer.poll(timeout_ms=100)
            admin.alter_group_offsets("shop", {TopicPartition("orders", 0): 0})
            admin.create_topic(f"other-{next(numbers)}", partitions=1)
            Stub(channel, "Broker").InitProducerId(broker_pb2.InitProducerIdRequest(), timeout=30)
            kafka.ask(unknown, 12, MetadataResponse)
            push(kafka, subscription)

        yield use


def push(kafka: KafkaSocket, subscription: GetTelemetrySubscriptionsResponse) -> None:
    """A push of metrics, as Java's producer makes it. One that comes too early is refused."""
    numbers = (
        Number("org.apache.kafka.producer.node.request.latency.avg", 5.0, attributes={"node.id": "0"}),
        Number("org.apache.kafka.producer.record.send.total", 7.0, CUMULATIVE),
    )
    of = {"client_instance_id": subscription.client_instance_id, "subscription_id": subscription.subscription_id}
    kafka.ask(PushTelemetryRequest(**of, metrics=push_of(*numbers)), 0, PushTelemetryResponse)


def panel_queries() -> list[str]:
    """Every query of the dashboards with Grafana's variables filled in, as if all was chosen."""
    return [
        filled_in(asked.expr, dashboard)
        for dashboard in DASHBOARDS
        for panel in dashboard.panels
        for asked in queries_of(panel)
    ]


def has_data(api: str, asked: str) -> bool:
    """True if a graph of the query would have a point: a quantile of no events is no number."""
    return any(not math.isnan(float(found["value"][1])) for found in query(api, "query", query=asked)["result"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts.test.yml")])
def test_prometheus_own_tool_accepts_the_rules_and_their_tests(command: tuple[str, ...]) -> None:
    result = subprocess.run(["promtool", *command], cwd=OPS / "prometheus", capture_output=True, check=False)
    assert result.returncode == 0, result.stdout.decode() + result.stderr.decode()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_own_tool_accepts_the_scrape_over_tls_with_the_files_of_penstock_certs(tmp_path: Path) -> None:
    client = Authority.create(tmp_path).client("prometheus")
    text = (OPS / "prometheus" / "prometheus-tls.yml").read_text()
    for path in (tmp_path / "ca.pem", client):
        text = text.replace(f"/etc/prometheus/penstock/{path.name}", str(path))
    assert "/etc/" not in text
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "alerts.yml").write_bytes((OPS / "prometheus" / "alerts.yml").read_bytes())
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_own_tool_has_nothing_to_say_about_a_live_scrape() -> None:
    with Cluster() as cluster:
        use_a_topic(cluster)
        with urllib.request.urlopen(cluster.metrics_url(0), timeout=60) as answer:
            scrape = answer.read()
    result = subprocess.run(["promtool", "check", "metrics"], input=scrape, capture_output=True, check=False)
    assert (result.returncode, (result.stdout + result.stderr).decode()) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemds_own_tool_finds_the_unit_hardened(name: str) -> None:
    unit = OPS / "systemd" / name
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager"]
    result = subprocess.run([*command, str(unit)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-200:] + result.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemds_own_tool_knows_every_setting_of_the_unit(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name
    text = (OPS / "systemd" / name).read_text()
    unit.write_text(text.replace("/opt/penstock/bin/penstock", "/bin/true"))
    result = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, check=False)
    complaints = [line for line in result.stderr.decode().splitlines() if "penstock" in line]
    assert not complaints
