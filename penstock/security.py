"""The types that `Admin` takes and gives for ACLs, users and quotas, in Kafka's words.

    admin.create_acls([AclBinding(ResourceType.TOPIC, "orders", "User:shop", Operation.WRITE)])
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("shop", password)])
    admin.alter_client_quotas({QuotaEntity(user="shop"): {"producer_byte_rate": 1_000_000}})

docs/security.md has whole examples. Each name is re-exported from where it stands. Not here: the calls themselves, nor
the other types of Admin (penstock/admin.py).
"""

from __future__ import annotations

from penstock.client.admin.security.roles import ROLES, Role, RoleRight, role_acls
from penstock.client.admin.security.users import (
    UserDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.messages.security.quotas import QuotaEntity

__all__ = [
    "CLUSTER_NAME",
    "ROLES",
    "AclBinding",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "QuotaEntity",
    "ResourceType",
    "Role",
    "RoleRight",
    "UserDescription",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "role_acls",
]
