"""The operations that a client may do to a resource, as bits (KIP-430): without an authorizer, all that there are."""

from __future__ import annotations

from typing import Final

from broker.kafka.parts import PlanParts
from broker.kafka.plan import Asked
from penstock.messages.security.acls import ResourceType

NOT_ASKED: Final = -0x80000000
"""Where the client has not asked."""
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = (1 << code for code in range(3, 10))
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (1 << code for code in range(10, 13))

TOPIC_OPERATIONS: Final = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
CLUSTER_OPERATIONS: Final = (
    _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _DESCRIBE_CONFIGS | _ALTER_CONFIGS | _IDEMPOTENT_WRITE
)
GROUP_OPERATIONS: Final = _READ | _DELETE | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS


def topic_operations(parts: PlanParts, asked: Asked, name: str) -> int:
    return parts.rights.operations(asked.caller, ResourceType.TOPIC, TOPIC_OPERATIONS, name)


def group_operations(parts: PlanParts, asked: Asked, group_id: str) -> int:
    return parts.rights.operations(asked.caller, ResourceType.GROUP, GROUP_OPERATIONS, group_id)


def cluster_operations(parts: PlanParts, asked: Asked) -> int:
    """The caller's operations on the cluster; none for a caller that may not describe the cluster, as in Kafka."""
    return parts.rights.operations(asked.caller, ResourceType.CLUSTER, CLUSTER_OPERATIONS)
