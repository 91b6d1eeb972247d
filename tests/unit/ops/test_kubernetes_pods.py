"""The pods of the campaign are what Kubernetes would make of a StatefulSet's template."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.pods import Place, all_pods, job_pod, pod_of

CONTAINER: dict[str, Any] = {
    "name": "penstock",
    "image": "registry.example/penstock:1",
    "args": ["node", "start", "--lost-log-dirs", "$(LOST)"],
    "env": [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LOST", "valueFrom": {"configMapKeyRef": {"name": "p-config", "key": "lost"}}},
        {"name": "FILE", "value": "env:/$(POD).toml $(UNKNOWN)"},
        {"name": "RACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['topology.kubernetes.io/zone']"}}},
    ],
    "ports": [{"containerPort": 9192}],
    "readinessProbe": {"httpGet": {"path": "/syncz"}},
}
SET: dict[str, Any] = {
    "kind": "StatefulSet",
    "metadata": {"name": "p"},
    "spec": {
        "replicas": 2,
        "ordinals": {"start": 100},
        "template": {
            "metadata": {"labels": {"app": "penstock"}},
            "spec": {
                "serviceAccountName": "p",
                "containers": [CONTAINER],
                "volumes": [{"name": "config", "configMap": {"name": "p-config"}}, {"name": "tls", "projected": {}}],
            },
        },
    },
}
CONFIG = {"kind": "ConfigMap", "metadata": {"name": "p-config"}, "data": {"lost": "a,b"}}
PLACE = Place({"p-100": "10.0.0.1", "p-101": "10.0.0.2"}, "nodes.svc", "p.svc", {"tls": "/s/tls"}, "localhost/it")


def test_each_number_from_the_first_one_is_a_pod() -> None:
    assert [(name, config["metadata"]["name"]) for _, name, config in all_pods([CONFIG, SET])] == [
        ("p-100", "p-config"),
        ("p-101", "p-config"),
    ]


def test_a_pod_has_its_number_its_claim_and_its_variables_filled_in() -> None:
    pod = pod_of(SET, "p-101", "north", PLACE, CONFIG)
    container = pod["spec"]["containers"][0]
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "101"
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "POD": "p-101",
        "LOST": "a,b",
        "FILE": "env:/p-101.toml $(UNKNOWN)",
        "RACK": "north",
    }
    assert container["args"] == ["node", "start", "--lost-log-dirs", "a,b"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-p-101"}} in pod["spec"]["volumes"]
    assert {"name": "tls", "hostPath": {"path": "/s/tls", "type": "Directory"}} in pod["spec"]["volumes"]
    assert {"ip": "10.0.0.1", "hostnames": ["p-100.nodes.svc"]} in pod["spec"]["hostAliases"]
    assert "ports" not in container and container["image"] == "localhost/it"


def test_the_template_stays_as_it_was() -> None:
    pod_of(SET, "p-100", "north", PLACE, CONFIG)
    assert CONTAINER["args"][-1] == "$(LOST)" and CONTAINER["image"].startswith("registry.example")


def test_a_job_is_a_pod_of_its_template() -> None:
    spec = {"containers": [{"name": "apply", "image": "x", "args": ["apply"]}], "restartPolicy": "OnFailure"}
    pod = job_pod({"metadata": {"name": "p-declare"}, "spec": {"template": {"spec": spec}}}, PLACE)
    assert pod["metadata"]["name"] == "p-declare" and pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["spec"]["containers"][0]["image"] == "localhost/it"
