"""Patterns of topics (KIP-848), in RE2's syntax (metadata/patterns.py): the whole name must match.

No pattern means a topic of the cluster's own, as with Kafka's consumers: `.*` would read what the group itself commits.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from metadata.patterns import compiled_pattern
from penstock.topic_names import INTERNAL_NAMES


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The topics of these names that a subscription to the pattern reads."""
    fullmatch = compiled_pattern(pattern).fullmatch
    return frozenset(name for name in names if name not in INTERNAL_NAMES and fullmatch(name.encode()))
