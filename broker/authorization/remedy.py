"""The command by which an administrator gives a right that was refused, ready to be pasted into a shell. Where an ACL
denies it, none gives it: then it is the command that shows the ACL.

A refused caller chooses the names in it, so a name that a shell or a terminal would take for more than a word is left
out, and with it the rest of the command. So is what no single ACL mends: DESCRIBE, which the right that the work needs
implies; a right of nodes; the id of an atomic batch of Spark, which needs a prefix. Not here: what the error says
before (judge.py), and the roles (penstock/client/admin/security/roles.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX

COMMAND: Final = "penstock acls create"
LIST_COMMAND: Final = "penstock acls list"
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+-]{0,63}")
_OPTIONS: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}
_LEFT_OUT: Final = (Operation.DESCRIBE, Operation.CLUSTER_ACTION)


def remedy(principal: str, need: Need) -> str:
    """The whole command where one ACL is the remedy and its words are plain; else its first words."""
    if need.operation in _LEFT_OUT or not _WORD.fullmatch(principal):
        return COMMAND
    operation = f"{COMMAND} {principal} -o {need.operation.value.lower()}"
    if need.resource_type is ResourceType.CLUSTER:
        return f"{operation} --cluster"
    if not _WORD.fullmatch(need.name) or need.name.startswith(BATCH_PREFIX):
        return COMMAND
    return f"{operation} {_OPTIONS[need.resource_type]} {need.name}"


def shown_by(need: Need) -> str:
    """The command that shows the ACLs of the resource, also those of prefixes and of all users; of all resources, where
    the name is not plain."""
    if need.resource_type is ResourceType.CLUSTER:
        return f"{LIST_COMMAND} --cluster"
    return f"{LIST_COMMAND} {_OPTIONS[need.resource_type]} {need.name}" if _WORD.fullmatch(need.name) else LIST_COMMAND
