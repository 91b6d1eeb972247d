"""Sums a bundle up, in the lines that a maintainer wants to see first (`penstock debug show`). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from penstock.debug.archive import Bundle


def summary(bundle: Bundle) -> Iterator[str]:
    """Where it is from, what is wrong there, and what it has, a line each."""
    index = bundle.index
    versions = f"penstock {index.get('penstock')}, Python {index.get('python')}, {index.get('platform')}"
    yield f"made {_time(index.get('made_at_ms'))} by {versions}"
    yield from _cluster(bundle)
    yield from _nodes(bundle)
    for part in index["parts"]:
        if why := part.get("error"):
            yield f"missing: {part['path']}: {why}"
    for path, data in sorted(bundle.files.items()):
        yield f"{len(data):>10,}  {path}"


def _time(at_ms: object) -> str:
    try:
        return datetime.fromtimestamp(float(str(at_ms)) / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"at {at_ms}"


def _cluster(bundle: Bundle) -> Iterator[str]:
    described, health = bundle.json("cluster/describe.json"), bundle.json("cluster/health.json")
    if _is(described, "brokers"):
        brokers = [one for one in described["brokers"] if isinstance(one, dict)]
        fenced = [str(one.get("node_id")) for one in brokers if one.get("fenced")]
        away = f", fenced: {', '.join(fenced)}" if fenced else ""
        controller = described.get("controller_id")
        yield f"cluster {described.get('cluster_id')}: {len(brokers)} brokers{away}; controller {controller}"
    if _is(health, "checks"):
        yield f"health: {health.get('status')}"
        for check in health["checks"]:
            if isinstance(check, dict) and check.get("status") not in ("ok", "healthy"):
                yield f"  {check.get('name')} ({check.get('status')}): {check.get('summary')}"


def _nodes(bundle: Bundle) -> Iterator[str]:
    for path in sorted(bundle.files):
        check = bundle.json(path) if path.startswith("nodes/") and path.endswith("/check.json") else None
        if check is not None and _is(check, "warnings"):
            yield f"node {check.get('node_id')} (penstock {check.get('version')}): {check.get('state')}"
            yield from (f"  warning: {warning}" for warning in check["warnings"])


def _is(document: Any, key: str) -> bool:
    return isinstance(document, dict) and isinstance(document.get(key), list)
