"""The lines at the end of the tests that say which clients of Kafka ran, and which were left out and why.

A test tells by `record_property` with these names; the reports bring it from the workers. Without such a test there is
no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

RAN, LEFT_OUT = "kafka client ran", "kafka client left out"


def client_lines(properties: Iterable[Sequence[tuple[str, Any]]]) -> list[str]:
    """The properties of all reports, in two lines at most."""
    found: dict[str, set[str]] = {RAN: set(), LEFT_OUT: set()}
    for of_one in properties:
        for name, value in of_one:
            if name in found:
                found[name].add(str(value))
    lines = []
    if found[RAN]:
        lines.append("Kafka clients that ran: " + ", ".join(sorted(found[RAN])))
    if found[LEFT_OUT]:
        lines.append("Kafka clients left out: " + "; ".join(sorted(found[LEFT_OUT])))
    return lines
