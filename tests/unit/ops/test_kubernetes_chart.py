"""The chart of ops/kubernetes, as far as it can be judged without helm: `python -m tests.kubernetes` does the rest."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main

import penstock
from broker.config.config import parse_config
from broker.config.config_variables import variable_values
from broker.config.node_config import NodeConfig
from penstock.cli.main import app
from tests.kubernetes.helm import CHART, COMMITTED, KUBERNETES, TOP

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
MANIFESTS = {values: (KUBERNETES / f"manifests/{values}.yaml").read_text() for values in COMMITTED}


def node_files(manifest: str) -> dict[str, Mapping[str, object]]:
    """The nodes' configuration files in a manifest, by pod."""
    found = re.findall(r"^  (\S+)\.toml: \|\n((?:    .*\n)+)", manifest, re.MULTILINE)
    files = {pod: re.sub("^    ", "", text, flags=re.MULTILINE) for pod, text in found}
    return {pod: flat(tomllib.loads(text)) for pod, text in files.items() if "node.id" in text}


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in tables.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def configs(values: str) -> dict[str, NodeConfig]:
    return {pod: parse_config(file) for pod, file in node_files(MANIFESTS[values]).items()}


@pytest.mark.parametrize("values", COMMITTED)
def test_each_node_of_the_manifests_has_a_configuration_that_a_start_takes(values: str) -> None:
    found = configs(values)
    assert len(found) in (3, 7)
    for pod, config in found.items():
        assert pod.endswith(f"-{config.node_id}"), "a pod's name ends with its node's id"
        assert all(at.host.startswith(f"{pod}.") for at in config.advertised_listeners.values())
        assert config.controller_quorum_auto_join_enable == config.is_controller
        listed = {str(at) for at in config.controller_quorum_bootstrap_servers}
        own = config.advertised_listeners.get("CONTROLLER")
        assert len(listed) == 3 and (own is None) == (not config.is_controller)
        assert own is None or str(own) in listed, "the first of them begins the cluster, and knows itself by it"
        replicas = (config.default_replication_factor, config.min_insync_replicas)
        assert replicas == (3, 2)


def test_controllers_and_brokers_that_are_separate_have_ids_of_their_own() -> None:
    roles = {config.node_id: set(config.roles) for config in configs("separate").values()}
    assert {node_id for node_id, of in roles.items() if of == {"controller"}} == {1000, 1001, 1002}
    assert {node_id for node_id, of in roles.items() if of == {"broker"}} == {100, 101, 102, 103}


@pytest.mark.parametrize("values", ["secured", "separate"])
def test_a_secured_cluster_leaves_no_listener_open(values: str) -> None:
    for config in configs(values).values():
        listeners = {*config.listeners, "METRICS"}
        assert listeners <= set(config.tls_listeners)
        assert config.authorizer_class_name == "StandardAuthorizer"


def test_the_configuration_of_a_pool_decides_its_restarts_and_no_node_of_it() -> None:
    """So a pool that grows restarts none of its brokers."""
    of_pool = TEMPLATES.partition('define "penstock.poolConfig"')[2].partition('define "penstock.nodeConfig"')[0]
    assert ".node." not in of_pool and "node.id" not in of_pool
    assert 'include "penstock.poolConfig" $given | sha256sum' in TEMPLATES


def test_variables_of_the_pods_are_keys_or_options() -> None:
    named = set(re.findall(r"name: (PENSTOCK_[A-Z_]+)", TEMPLATES))
    assert {"PENSTOCK_CONFIG", "PENSTOCK_BROKER_RACK", "PENSTOCK_FIRST_START"} <= named
    assert set(variable_values(dict.fromkeys(named, "1"))) == {"broker.rack", "metrics.listener"}


def test_commands_of_the_jobs_are_there_with_their_options() -> None:
    found = re.findall(r'list "(brokers|cluster|apply)" ("[^)]*)', TEMPLATES)
    assert {group for group, _ in found} == {"brokers", "cluster", "apply"}
    for group, rest in found:
        command: Any = typer.main.get_command(app).commands[group]  # type: ignore[attr-defined]
        words = re.findall(r'"([^"]*)"', rest)
        if hasattr(command, "commands"):
            command = command.commands[words[0]]
        options = {name for one in command.params for name in one.opts}
        assert {word for word in words if word.startswith("--")} <= options, (group, words)


def test_the_chart_has_the_rules_and_dashboards_of_ops() -> None:
    """By links to files, which helm, git and a source archive follow."""
    dashboards = {f"dashboards/{path.name}": path for path in (TOP / "ops/grafana/dashboards").glob("*.json")}
    assert {f"dashboards/{path.name}" for path in (CHART / "dashboards").iterdir()} == set(dashboards)
    for name, target in {"alerts.yml": TOP / "ops/prometheus/alerts.yml", **dashboards}.items():
        link = CHART / name
        assert link.is_symlink() and not Path(os.readlink(link)).is_absolute()
        assert link.resolve() == target and link.exists()
    assert '.Files.Get "alerts.yml"' in TEMPLATES and '.Files.Glob "dashboards/*.json"' in TEMPLATES


def test_the_chart_is_of_this_release() -> None:
    chart = (CHART / "Chart.yaml").read_text()
    assert f'appVersion: "{penstock.__version__}"' in chart
    number = re.match(r"[0-9]+\.[0-9]+\.[0-9]+", penstock.__version__)
    assert number is not None and f"\nversion: {number[0]}\n" in chart


def test_the_schema_has_each_value_and_no_other() -> None:
    values = (CHART / "values.yaml").read_text()
    named = set(re.findall(r"^([a-zA-Z]+):", values, re.MULTILINE))
    assert named == set(SCHEMA["properties"]) - {"global"}
    of_pools = re.findall(r"^  ([a-zA-Z]+):", values.partition("\npoolDefaults:")[2].partition("\n\n")[0], re.MULTILINE)
    assert set(of_pools) == set(SCHEMA["properties"]["poolDefaults"]["properties"])
    assert set(of_pools) < set(SCHEMA["properties"]["pools"]["additionalProperties"]["properties"])


def test_the_schema_refuses_names_that_it_does_not_have() -> None:
    open_objects = {path for path, schema in objects(SCHEMA) if "additionalProperties" not in schema}
    assert open_objects == {"/global", "/networkPolicy/clients/[]", "/networkPolicy/monitoring/[]"} | {
        f"/{of}/tolerations/[]" for of in ("poolDefaults", "pools/*")
    }
    assert SCHEMA["properties"]["clusterId"]["pattern"] == "^$|^[A-Za-z0-9_][A-Za-z0-9_-]{21}$"


def objects(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas of objects, each with its place."""
    if schema.get("type") == "object":
        yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from objects(one, f"{path}/{name}")
    for key, step in (("items", "[]"), ("additionalProperties", "*")):
        if isinstance(schema.get(key), dict):
            yield from objects(schema[key], f"{path}/{step}")


def test_the_manifests_are_yaml_of_the_kinds_that_kubernetes_needs() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; `python -m tests.kubernetes` parses them, too")
    for values, text in MANIFESTS.items():
        found = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(text)]
        assert len(found) == len(set(found)), values
        assert {"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"} <= {kind for kind, _ in found}
