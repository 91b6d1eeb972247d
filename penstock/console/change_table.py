"""The table of the console's changes."""

from __future__ import annotations

from typing import Final

from penstock.console.changes.acl_changes import ACL_CHANGES
from penstock.console.changes.move_changes import MOVE_CHANGES
from penstock.console.changes.other_changes import OTHER_CHANGES
from penstock.console.changes.quota_changes import QUOTA_CHANGES
from penstock.console.changes.role_changes import ROLE_CHANGES
from penstock.console.changes.topic_changes import TOPIC_CHANGES
from penstock.console.changes.user_changes import USER_CHANGES

CHANGES: Final = (
    *TOPIC_CHANGES,
    *OTHER_CHANGES,
    *MOVE_CHANGES,
    *ACL_CHANGES,
    *ROLE_CHANGES,
    *USER_CHANGES,
    *QUOTA_CHANGES,
)
