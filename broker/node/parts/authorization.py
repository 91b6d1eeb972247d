"""Makes the check of who may do what, which stands on the metadata alone."""

from __future__ import annotations

from collections.abc import Callable

from broker.apis.served_apis import JUDGED_IN_PARTS, RULES
from broker.audit.audit_log import AuditLog
from broker.authorization.authorizer import Authorizer
from broker.authorization.gatekeeper import Gatekeeper
from broker.config.node_config import NodeConfig
from metadata.image import MetadataImage


def make_gatekeeper(config: NodeConfig, image: Callable[[], MetadataImage], audit: AuditLog) -> Gatekeeper | None:
    """None where everybody may do everything."""
    if not config.authorizer_class_name:
        return None
    authorizer = Authorizer(
        lambda: image().acls,
        config.super_user_principals,
        allows_without_acls=config.allow_everyone_if_no_acl_found,
    )
    return Gatekeeper(
        authorizer, image, config.inter_broker_listener_name, audit, rules=RULES, judged_in_parts=JUDGED_IN_PARTS
    )
