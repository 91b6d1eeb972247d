"""The names that the campaign, its members and its reader share."""

from __future__ import annotations

from typing import Final

GROUP: Final = "copies"
INPUT, OUTPUT = "numbers", "copied"
PARTITIONS: Final = 12
BATCH: Final = 500
"""Records of one transaction, at most."""
SESSION_MS: Final = 6_000
