"""Makes the Compose files, of one node and of three, secured and not: `python -m ops.container.compose`.

    compose/one.yaml, three.yaml                  nodes, console, Prometheus with alert rules, Grafana with dashboards
    compose/one-secured.yaml, three-secured.yaml  the same with TLS, log-ins and ACLs
    compose/*-scrape.yml                          the configuration of Prometheus for each

Programs on this machine reach node N at localhost:929N (Penstock's) and localhost:939N (Kafka's clients); nothing is
published beyond loopback. The files are for `podman-compose` and `docker compose`; docs/containers.md has the commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent / "compose"
CLUSTER_ID: Final = "compose-cluster-000001"
TLS: Final = "/etc/penstock/tls"
PROBE: Final = ["CMD", "/opt/penstock/bin/python", "-IS", "/opt/penstock/bin/penstock-probe.py"]
HEAD: Final = "# Made by python -m ops.container.compose; do not edit by hand. How to use it: docs/containers.md.\n"
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def compose(nodes: int, *, is_secured: bool) -> dict[str, Any]:
    """One Compose file."""
    names = [f"node-{number}" for number in range(nodes)]
    services = {name: _node(number, names, is_secured=is_secured) for number, name in enumerate(names)}
    services["console"] = _console(names, is_secured=is_secured)
    scrape = f"{'one' if nodes == 1 else 'three'}{'-secured' * is_secured}-scrape.yml"
    mounts = [
        f"./{scrape}:/etc/prometheus/prometheus.yml:ro",
        "../../prometheus/alerts.yml:/etc/prometheus/alerts.yml:ro",
    ]
    services["prometheus"] = {
        "image": "docker.io/prom/prometheus:latest",
        "restart": "unless-stopped",
        "ports": ["127.0.0.1:9090:9090"],
        "volumes": [*mounts, *([f"./tls/ca.pem:{TLS}/ca.pem:ro"] if is_secured else []), "prometheus:/prometheus"],
    }
    services["grafana"] = {
        "image": "docker.io/grafana/grafana:latest",
        "restart": "unless-stopped",
        "ports": ["127.0.0.1:3000:3000"],
        "volumes": [
            "./grafana-datasource.yml:/etc/grafana/provisioning/datasources/penstock.yml:ro",
            "../../grafana/provisioning/dashboards:/etc/grafana/provisioning/dashboards:ro",
            "../../grafana/dashboards:/var/lib/grafana/dashboards/penstock:ro",
            "grafana:/var/lib/grafana",
        ],
    }
    volumes = {name: {} for name in (*names, "prometheus", "grafana")}
    return {"name": "penstock", "services": services, "volumes": volumes}


def scrape(nodes: int, *, is_secured: bool) -> dict[str, Any]:
    """The configuration of Prometheus beside it."""
    job: dict[str, Any] = {"job_name": "penstock"}
    if is_secured:
        job |= {"scheme": "https", "tls_config": {"ca_file": f"{TLS}/ca.pem"}}
    job["static_configs"] = [{"targets": [f"node-{number}:9404" for number in range(nodes)]}]
    every = {"scrape_interval": "15s", "evaluation_interval": "15s"}
    return {"global": every, "rule_files": ["alerts.yml"], "scrape_configs": [job]}


DATASOURCE: Final[Mapping[str, Any]] = {
    "apiVersion": 1,
    "datasources": [
        {
            "name": "Prometheus",
            "uid": "penstock-prometheus",
            "type": "prometheus",
            "access": "proxy",
            "url": "http://prometheus:9090",
            "isDefault": True,
            "jsonData": {"timeInterval": "15s"},
        }
    ],
}


def _ours() -> dict[str, Any]:
    """The parts of every service with our image: it may do nothing but its work."""
    return {
        "image": "${PENSTOCK_IMAGE:-localhost/penstock:latest}",
        "restart": "unless-stopped",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }


def _node(number: int, names: list[str], *, is_secured: bool) -> dict[str, Any]:
    name = names[number]
    listeners = {"BROKER": 9192, "KAFKA": 9092, "HOST": 9290 + number, "HOSTKAFKA": 9390 + number}
    of_nodes = {"INTERNAL": 9194, "CONTROLLER": 9193}
    at = [f"{one}://0.0.0.0:{port}" for one, port in listeners.items()]
    at += [f"{one}://{name}:{port}" for one, port in of_nodes.items()]
    advertised = [
        f"{one}://{'localhost' if one.startswith('HOST') else name}:{port}" for one, port in listeners.items()
    ]
    environment = {
        "PENSTOCK_CLUSTER_ID": f"${{PENSTOCK_CLUSTER_ID:-{CLUSTER_ID}}}",
        "PENSTOCK_FIRST_START": "together",
        "PENSTOCK_NODE_ID": str(number),
        "PENSTOCK_PROCESS_ROLES": "broker,controller",
        "PENSTOCK_LISTENERS": ",".join(at),
        "PENSTOCK_ADVERTISED_LISTENERS": ",".join(advertised),
        "PENSTOCK_LISTENER_TYPE_MAP": "KAFKA:KAFKA,HOSTKAFKA:KAFKA",
        "PENSTOCK_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": ",".join(f"{one}:9193" for one in names),
        "PENSTOCK_CONTROLLER_QUORUM_AUTO_JOIN_ENABLE": "true",
        "PENSTOCK_DEFAULT_REPLICATION_FACTOR": str(len(names)),
        "PENSTOCK_MIN_INSYNC_REPLICAS": "2" if len(names) > 2 else "1",
    }
    volumes = [f"{name}:/var/lib/penstock"]
    if is_secured:
        protocols = [f"{one}:SASL_SSL" for one in listeners] + [f"{one}:SSL" for one in (*of_nodes, "METRICS")]
        environment |= {
            "PENSTOCK_LISTENER_SECURITY_PROTOCOL_MAP": ",".join(protocols),
            "PENSTOCK_SSL_KEYSTORE_LOCATION": f"{TLS}/{name}.pem",
            "PENSTOCK_SSL_TRUSTSTORE_LOCATION": f"{TLS}/ca.pem",
            "PENSTOCK_AUTHORIZER_CLASS_NAME": "StandardAuthorizer",
            "PENSTOCK_SUPER_USERS": "User:admin",
            "PENSTOCK_ADD_SCRAM": f"SCRAM-SHA-256=[name=admin,password-file={TLS}/admin.password]",
        }
        volumes += [f"./tls/{one}:{TLS}/{one}:ro" for one in (f"{name}.pem", "ca.pem", "admin.password")]
    return {
        **_ours(),
        "hostname": name,
        "stop_grace_period": "1m",
        "ports": [f"127.0.0.1:{port}:{port}" for one, port in listeners.items() if one.startswith("HOST")],
        "environment": environment,
        "volumes": volumes,
        "healthcheck": {"test": PROBE, "interval": "10s", "timeout": "6s", "start_period": "30s", "retries": 3},
    }


def _console(names: list[str], *, is_secured: bool) -> dict[str, Any]:
    environment = {"PENSTOCK_BOOTSTRAP": ",".join(f"{name}:9192" for name in names)}
    options = ["--plain-http"]
    volumes = {}
    if is_secured:
        environment |= {"PENSTOCK_TLS_CA": f"{TLS}/ca.pem"}
        options = ["--https-cert", f"{TLS}/console.pem"]
        volumes = {"volumes": [f"./tls/{one}:{TLS}/{one}:ro" for one in ("ca.pem", "console.pem")]}
    return {
        **_ours(),
        "command": ["console", "--host", "0.0.0.0", *options],
        "environment": environment,
        **volumes,
        "ports": ["127.0.0.1:9180:9180"],
        "depends_on": names,
    }


def text_of(value: Mapping[str, Any]) -> str:
    """The document as YAML."""
    return HEAD + "\n".join(_lines(value)) + "\n"


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """Blocks for what has parts; a list of one line where it is short."""
    items = (
        [(f"{key}:", part) for key, part in value.items()] if isinstance(value, Mapping) else [("-", p) for p in value]
    )
    for lead, part in items:
        if isinstance(part, Mapping) and part and lead == "-":
            first, *rest = _lines(part, indent + "  ")
            yield f"{indent}- {first.strip()}"
            yield from rest
        elif isinstance(part, list | Mapping) and part and not _is_short(part):
            yield f"{indent}{lead}"
            yield from _lines(part, indent + "  ")
        else:
            yield f"{indent}{lead} {_scalar(part)}"


def _is_short(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(one, str) for one in part) and len(json.dumps(part)) <= 100


def _scalar(part: Any) -> str:
    if isinstance(part, str) and _PLAIN.fullmatch(part) and part.lower() not in _WORDS:
        return part
    return json.dumps(part)


def files() -> dict[Path, str]:
    """Every file and its text."""
    found = {FOLDER / "grafana-datasource.yml": text_of(DATASOURCE)}
    for name, nodes in (("one", 1), ("three", 3)):
        for is_secured in (False, True):
            stem = f"{name}{'-secured' * is_secured}"
            found[FOLDER / f"{stem}.yaml"] = text_of(compose(nodes, is_secured=is_secured))
            found[FOLDER / f"{stem}-scrape.yml"] = text_of(scrape(nodes, is_secured=is_secured))
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
