"""Names every listener of a configuration in listener.security.protocol.map, as a map with TLS or log-ins must."""

from __future__ import annotations

from typing import Any

MAP = "listener.security.protocol.map"


def all_named(values: dict[str, Any]) -> dict[str, Any]:
    """The configuration with PLAINTEXT for each listener that its map leaves out; without a map it stays as it is."""
    if MAP not in values:
        return values
    given = values[MAP] if isinstance(values[MAP], list) else values[MAP].split(",")
    listeners = values["listeners"] if isinstance(values["listeners"], list) else values["listeners"].split(",")
    names = [text.partition("://")[0].strip() for text in listeners]
    names += ["CONTROLLER", *(["INTERNAL"] if "broker" in values["process.roles"] else [])]
    if "metrics.listener" in values and "METRICS" not in names:
        names.append("METRICS")
    named = {text.partition(":")[0].strip() for text in given}
    return {**values, MAP: [*given, *(f"{name}:PLAINTEXT" for name in dict.fromkeys(names) if name not in named)]}
