"""Figures of a node's process, and of its metrics."""

from __future__ import annotations

import os
import urllib.request
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from penstock.testing import Cluster

TIMEOUT_S = 30.0


def samples(metrics_url: str, timeout_s: float = TIMEOUT_S) -> Iterator[Sample]:
    """Everything that a node's listener of metrics shows; OSError if it does not answer."""
    with urllib.request.urlopen(metrics_url, timeout=timeout_s) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        yield from family.samples


def counts(cluster: Cluster, names: Collection[str]) -> Counter[str]:
    """These counters, summed over their labels and all nodes."""
    found: Counter[str] = Counter()
    for node in range(len(cluster)):
        for sample in samples(cluster.metrics_url(node)):
            if (name := sample.name.removesuffix("_total")) in names and name != sample.name:
                found[name] += int(sample.value)
    return found


def rss_mib(pid: int) -> int:
    """Resident memory of a process; 0 of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
