"""Schemas for kubeconform, which downloads its own from GitHub otherwise.

Those of Kubernetes come from the package kubernetes-validate, whose definitions refer to each other across files, which
kubeconform does not follow: each is made a file of its own. Those of cert-manager and of Prometheus' operator come from
the definitions (CRDs) in their Go modules; as kubeconform's own strict schemas, they allow no field that they do not
name. Nothing of either is in the repository.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

VERSION: Final = "v1.37.0"
MODULES: Final = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "github.com/cert-manager/cert-manager@v1.21.2": ("deploy/crds/cert-manager.io_certificates.yaml",),
}
KINDS: Final = (
    "configmap-v1",
    "job-batch-v1",
    "networkpolicy-networking-v1",
    "poddisruptionbudget-policy-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
_REFERENCE: Final = "/api/_definitions.json#/$defs/"
_OWN: Final = "#/$defs/"


class SchemasMissingError(Exception):
    """A package or a module that has schemas is not there; the message says how to get it."""


def write_schemas(directory: Path) -> str:
    """Writes a file for each kind, and returns the location as kubeconform takes it; SchemasMissingError."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        raise SchemasMissingError("Kubernetes' schemas: pip install kubernetes-validate")
    folder = Path(found.origin).parent / f"kubernetes-json-schema/{VERSION}-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text())["$defs"]
    for kind in KINDS:
        schema = json.loads((folder / f"{kind}.json").read_text())
        (directory / f"{kind}.json").write_text(json.dumps(_whole(schema, definitions)))
    for name, schema in _custom():
        (directory / f"{name}.json").write_text(json.dumps(schema))
    return f"{directory}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def _whole(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every definition that it reaches."""
    needed: dict[str, Any] = {}
    left = set(_referred(schema))
    while left:
        name = left.pop()
        needed[name] = definitions[name]
        left |= set(_referred(needed[name])) - needed.keys()
    text = json.dumps({**schema, "$defs": needed}).replace(_REFERENCE, _OWN)
    # Without their addresses, at which the definitions would be looked for.
    whole: dict[str, Any] = json.loads(re.sub(r'"\$(id|schema)": "[^"]*"(, )?', "", text))
    return whole


def _referred(schema: object) -> list[str]:
    return re.findall(r'#/\$defs/([^"]*)"', json.dumps(schema))


def _custom() -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and schemas of the kinds that operators bring."""
    import yaml

    for module, paths in MODULES.items():
        done = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise SchemasMissingError(f"go mod download {module}: {done.stderr or done.stdout}")
        for path in paths:
            definition = yaml.safe_load((Path(json.loads(done.stdout)["Dir"]) / path).read_text())["spec"]
            group, kind = definition["group"], definition["names"]["kind"].lower()
            for version in definition["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                _forbid_others(schema)
                schema["properties"]["metadata"].pop("additionalProperties", None)
                yield f"{kind}-{group.partition('.')[0]}-{version['name']}", schema


def _forbid_others(schema: object) -> None:
    """Strict, as Kubernetes prunes what a definition does not name."""
    if isinstance(schema, list):
        for one in schema:
            _forbid_others(one)
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for one in schema.values():
            _forbid_others(one)
