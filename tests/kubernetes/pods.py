"""Makes of manifests the pods that Kubernetes would make, in the form that podman plays.

podman (4.3) knows pods and no StatefulSets, mounts Secrets as they stand in YAML, and fills in no $(VARIABLE). So a
StatefulSet's template becomes a pod for each number, with what its controller and the kubelet add: the name, the labels
of number and zone, the claim, the variables, the addresses of the headless Service. Secrets become directories that the
group of the pod may read. The template's containers stay as they are but for ports, which podman
would publish at this machine, and probes, which it would run inside: the campaign asks them as the kubelet does
(play.py). Pure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

NUMBER: Final = "apps.kubernetes.io/pod-index"
ZONE: Final = "topology.kubernetes.io/zone"
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """The surroundings of the pods on this machine."""

    addresses: Mapping[str, str]
    """By pod; every pod knows all of them, by the names of the headless Service."""
    domain: str
    service: str
    secrets: Mapping[str, str]
    """The directory of each Secret."""
    image: str


def pod_names(stateful_set: Document) -> list[str]:
    """The pods of a StatefulSet, in the order of their numbers."""
    spec = stateful_set["spec"]
    first = spec.get("ordinals", {}).get("start", 0)
    return [f"{stateful_set['metadata']['name']}-{first + number}" for number in range(spec["replicas"])]


def of_kind(documents: Sequence[Document], kind: str) -> list[Document]:
    return [one for one in documents if one["kind"] == kind]


def pod_of(stateful_set: Document, name: str, zone: str, place: Place, config: Document) -> Document:
    """One pod of a StatefulSet; `config` is the ConfigMap from which it takes variables."""
    template = copy.deepcopy(stateful_set["spec"]["template"])
    labels = template["metadata"]["labels"] | {NUMBER: name.rpartition("-")[2], ZONE: zone}
    spec = _placed(template["spec"], place)
    spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}})
    for container in spec["containers"]:
        for key in ("startupProbe", "livenessProbe", "readinessProbe", "ports"):
            container.pop(key, None)  # podman would publish the ports at this machine
        _fill_in(
            container, {"metadata.name": name} | {f"metadata.labels['{key}']": v for key, v in labels.items()}, config
        )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def job_pod(job: Document, place: Place) -> Document:
    """The pod of a Job."""
    spec = _placed(copy.deepcopy(job["spec"]["template"]["spec"]), place)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": job["metadata"]["name"]}, "spec": spec}


def _placed(spec: Document, place: Place) -> Document:
    """The spec of a pod with this machine's image, addresses and Secrets."""
    for key in ("affinity", "topologySpreadConstraints", "serviceAccountName"):
        spec.pop(key, None)
    hosts = [{"ip": ip, "hostnames": [f"{pod}.{place.domain}"]} for pod, ip in place.addresses.items()]
    spec["hostAliases"] = [*hosts, {"ip": next(iter(place.addresses.values())), "hostnames": [place.service]}]
    spec["volumes"] = [_volume(volume, place) for volume in spec.get("volumes", [])]
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        container["image"], container["imagePullPolicy"] = place.image, "Never"
    return spec


def _volume(volume: Document, place: Place) -> Document:
    """A Secret is a directory; so is a projection of several, whose paths the caller has put there."""
    name = volume["secret"]["secretName"] if "secret" in volume else volume["name"] if "projected" in volume else ""
    if not name:
        return volume
    return {"name": volume["name"], "hostPath": {"path": place.secrets[name], "type": "Directory"}}


def _fill_in(container: Document, fields: Mapping[str, str], config: Document) -> None:
    """The values of the container's variables, where they come from elsewhere, and $(NAME) in them and in arguments."""
    values: dict[str, str] = {}
    for variable in container["env"]:
        source = variable.pop("valueFrom", None)
        if source is not None:
            path = source.get("fieldRef", {}).get("fieldPath")
            variable["value"] = fields.get(path, "") if path else config["data"][source["configMapKeyRef"]["key"]]
        values[variable["name"]] = variable["value"] = _expanded(variable["value"], values)
    container["args"] = [_expanded(word, values) for word in container["args"]]


def _expanded(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)


def all_pods(documents: Sequence[Document]) -> Iterator[tuple[Document, str, Document]]:
    """Each pod's StatefulSet, its name, and the ConfigMap that its container names."""
    maps = {one["metadata"]["name"]: one for one in of_kind(documents, "ConfigMap")}
    for stateful_set in of_kind(documents, "StatefulSet"):
        config = maps[f"{stateful_set['metadata']['name']}-config"]
        for name in pod_names(stateful_set):
            yield stateful_set, name, config
