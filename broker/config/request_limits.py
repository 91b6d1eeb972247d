"""Makes docs/request-limits.md of the table of APIs: `python -m broker.config.request_limits > docs/request-limits.md`.

Not here: the limits (penstock/messages/), how elements are counted (wire_walk.py), how many bytes may be in flight
(network/memory_budget.py).
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.messages.api import Api
from penstock.messages.apis import APIS

INTRODUCTION = """# Limits of one request

Made from the table of APIs (`penstock/messages/apis.py`) by `python -m broker.config.request_limits`; do not edit by
hand.

A request over a limit is refused with INVALID_REQUEST, which names the field, the limit and the count. Nothing of it is
done, and the elements are counted before any of them costs work. A nested field is counted over the whole request. A
refused request ends its produce or fetch stream. `socket.request.max.bytes` ([configuration](configuration.md)) comes
before all of these: gRPC refuses a larger message with RESOURCE_EXHAUSTED.

| API | bytes of the request | elements | note |
| --- | --- | --- | --- |
"""


def reference() -> str:
    """The page."""
    return INTRODUCTION + "".join(map(_row, APIS.values()))


def _row(api: Api[Any, Any]) -> str:
    limits = api.limits
    size = "`socket.request.max.bytes`" if limits.message_bytes is None else f"{limits.message_bytes:,}"
    elements = ", ".join(f"`{path}` {limit:,}" for path, limit in limits.elements.items()) or "none"
    return f"| {api.name} | {size} | {elements} | {limits.reason} |\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
