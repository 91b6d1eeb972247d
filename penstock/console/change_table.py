"""The table of the console's changes."""

from __future__ import annotations

from typing import Final

from penstock.console.changes.other_changes import OTHER_CHANGES
from penstock.console.changes.topic_changes import TOPIC_CHANGES

CHANGES: Final = (*TOPIC_CHANGES, *OTHER_CHANGES)
