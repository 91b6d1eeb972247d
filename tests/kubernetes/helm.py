"""Asks helm: what the chart makes of a file of values, and whether it refuses what is wrong.

A value of a wrong kind or name is refused by values.schema.json, what only the templates can see by `fail`. Not here:
what Kubernetes says of the output (schemas.py).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[2]
KUBERNETES: Final = TOP / "ops/kubernetes"
CHART: Final = KUBERNETES / "penstock"
NAMESPACE: Final = "penstock"
COMMITTED: Final = ("plain", "secured", "separate")
"""The files of values whose manifests are in the repository."""
REFUSED: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("/pools/node/replicas", ["pools.node.replicas=three"]),
    ("replica' not allowed", ["pools.node.replica=3"]),
    ("secrity' not allowed", ["secrity.enabled=true"]),
    ("/security/enabled", ["security.enabled=yes"]),
    ("/poolDefaults/hostSpread", ["poolDefaults.hostSpread=maybe"]),
    ("/poolDefaults/storage/size", ["poolDefaults.storage.size=20 GB"]),
    ("/clusterId", ["clusterId=short"]),
    ("/outside/type", ["outside.type=ClusterIP"]),
    ("/outside/listeners/0/name", ["outside.listeners[0].name=INTERNAL", "outside.listeners[0].protocol=GRPC"]),
    ("/terminationGracePeriodSeconds", ["terminationGracePeriodSeconds=0"]),
    ("exactly one pool with nodes has the role controller", ["pools.controller.replicas=3"]),
    ("a quorum has 9 controllers at most", ["pools.node.replicas=11"]),
    ("pool broker has node 2, too", ["pools.broker.replicas=3", "pools.broker.firstNodeId=2"]),
    ("give secretName, a Secret with ca.pem", ["security.enabled=true"]),
    ("nobody is asked to log in", ["users.shop.secretName=a", "users.shop.key=b"]),
    (
        "node 0 has no address there",
        ["outside.listeners[0].name=OUT", "outside.listeners[0].protocol=GRPC", "outside.listeners[0].port=9292"],
    ),
)
"""Values that are refused, each after the words by which the refusal must name them."""


class ChartError(Exception):
    """The chart does what it should not."""


def render(values: str, *more: str) -> str:
    """The manifests of one file of values, and of more values as NAME=VALUE; ChartError."""
    words = ["-n", NAMESPACE, "-f", str(KUBERNETES / f"values/{values}.yaml")]
    words += [word for value in more for word in ("--set", value)]
    done = _helm("template", "penstock", str(CHART), *words)
    if done.returncode:
        raise ChartError(f"{values}: {done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()) + "\n"


def lint(values: str) -> None:
    """ChartError for a warning or an error of helm's."""
    done = _helm("lint", "--strict", str(CHART), "-f", str(KUBERNETES / f"values/{values}.yaml"))
    if done.returncode:
        raise ChartError(f"{values}: {done.stdout}{done.stderr}")


def check_refusals() -> int:
    """How many wrong values were refused by their names; ChartError for one that was not."""
    for named, values in REFUSED:
        words = [word for value in values for word in ("--set", value)]
        done = _helm("template", "penstock", str(CHART), *words)
        if done.returncode == 0 or named not in done.stderr:
            raise ChartError(f"{values}: not refused with {named!r}: {done.stderr or 'taken'}")
    done = _helm("template", "penstock", str(CHART), "--kube-version", "1.34.0")
    if "rackFromZone needs Kubernetes 1.35" not in done.stderr:
        raise ChartError(f"Kubernetes 1.34 with rackFromZone: {done.stderr or 'taken'}")
    return len(REFUSED) + 1


def all_values() -> list[str]:
    return sorted(path.stem for path in (KUBERNETES / "values").glob("*.yaml"))


def _helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["helm", *words], capture_output=True, text=True, timeout=60)
