"""A real Prometheus beside a test cluster: the configuration and the rules of ops/, at the pace of a test."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from penstock.testing import Cluster
from penstock.testing.ports import free_ports

OPS = Path(__file__).resolve().parents[2] / "ops" / "prometheus"


def write_config(directory: Path, cluster: Cluster, seconds_per_minute: int = 60) -> None:
    """Every node of the cluster is scraped each second. `seconds_per_minute` scales how long an alert's condition must
    hold and how far back its expression looks."""
    urls = [cluster.metrics_url(index) for index in range(len(cluster))]
    targets = ", ".join(f'"{url.removeprefix("http://").removesuffix("/metrics")}"' for url in urls)
    config = (OPS / "prometheus.yml").read_text(encoding="utf-8").replace("15s", "1s")
    (directory / "prometheus.yml").write_text(re.sub(r"targets: .*", f"targets: [{targets}]", config))
    rules = (OPS / "alerts.yml").read_text(encoding="utf-8")
    (directory / "alerts.yml").write_text(scaled(rules, seconds_per_minute))


def scaled(rules: str, seconds_per_minute: int) -> str:
    """The rules with so many seconds in place of each minute of a `for:`, of a range, of minutes as `N * 60`, or of
    hours as `N * 3600`."""
    units = {"m": seconds_per_minute, "h": 60 * seconds_per_minute}
    rules = re.sub(r"\* (60|3600)\b", lambda found: f"* {units['m' if found[1] == '60' else 'h']}", rules)
    return re.sub(r"(for: |\[)(\d+)([mh])", lambda found: f"{found[1]}{int(found[2]) * units[found[3]]}s", rules)


@contextmanager
def running_prometheus(directory: Path) -> Iterator[str]:
    """A Prometheus with `directory`/prometheus.yml; the address of its API."""
    address = f"127.0.0.1:{free_ports(1)[0].metrics}"
    flags = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb"]
    command = ["prometheus", *flags, f"--web.listen-address={address}"]
    with (directory / "log").open("wb") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:
        try:
            yield f"http://{address}/api/v1"
        finally:
            process.terminate()


def query(api: str, endpoint: str, **parameters: str) -> Any:
    """The data of one answer of Prometheus' API; empty while it does not answer yet."""
    try:
        with urllib.request.urlopen(f"{api}/{endpoint}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:  # which it says until it has read its own log
            raise AssertionError(f"{parameters}: {error}") from None
        return {"result": [], "groups": []}
    except OSError:
        return {"result": [], "groups": []}
