"""The operators' files against what they speak of: the dashboard and the alerts against a live cluster's metrics,
the example configuration against the loader, the unit and the rules against their own tools where those are installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from broker.config import load_config
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster

OPS = Path(__file__).resolve().parents[2] / "ops"
NAME = re.compile(r"\b(?:penstock|process)_[a-z_]+\b")


def exported(cluster: Cluster) -> set[str]:
    """The names of the samples that one node shows."""
    with urllib.request.urlopen(cluster.metrics_url(0), timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {re.split(r"[{ ]", line)[0] for line in lines if line and not line.startswith("#")}


@pytest.fixture(scope="module")
def metrics() -> set[str]:
    """What a node shows that has served a topic's life."""
    with Cluster() as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
        with Producer(cluster.bootstrap) as producer:
            producer.send("orders", value=b"v").result(30)
        with Consumer(cluster.bootstrap) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            consumer.seek_to_beginning()
            consumer.poll(timeout_ms=1000)
        return exported(cluster)


def test_every_panel_of_the_dashboard_asks_for_metrics_that_a_node_shows(metrics: set[str]) -> None:
    dashboard = json.loads((OPS / "grafana" / "penstock.json").read_text())
    asked = {
        (panel["title"], name)
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in NAME.findall(target["expr"])
    }
    assert len(asked) >= 20
    assert not {(title, name) for title, name in asked if name not in metrics}


def test_every_alert_asks_for_metrics_that_a_node_shows(metrics: set[str]) -> None:
    expressions = re.findall(r"expr: (.*)", (OPS / "prometheus" / "alerts.yml").read_text())
    asked = {name for expression in expressions for name in NAME.findall(expression)}
    assert len(expressions) >= 8 and not asked - metrics


def test_the_example_configuration_is_one_that_a_node_accepts() -> None:
    config = load_config(str(OPS / "config" / "node.toml"))
    assert config.min_insync_replicas == 2 and len(config.voters) == 3


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts.test.yml")])
def test_prometheus_own_tool_accepts_the_rules_and_their_tests(command: tuple[str, ...]) -> None:
    result = subprocess.run(["promtool", *command], cwd=OPS / "prometheus", capture_output=True, check=False)
    assert result.returncode == 0, result.stdout.decode() + result.stderr.decode()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemds_own_tool_knows_every_setting_of_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "penstock@.service"
    text = (OPS / "systemd" / "penstock@.service").read_text()
    unit.write_text(text.replace("/opt/penstock/bin/penstock", "/bin/true"))
    result = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, check=False)
    complaints = [line for line in result.stderr.decode().splitlines() if "penstock" in line]
    assert not complaints
