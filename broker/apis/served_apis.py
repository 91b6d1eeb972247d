"""All APIs that a broker serves, and what the request path reads of their rows. A new API adds its file here.

Not here: what a row has (served.py), and the handlers. DescribeMetadata has its row here, because its handler stands in
`broker/quorum/`, which knows no rights.
"""

from __future__ import annotations

from typing import Final

from broker.apis import (
    alter_replica_log_dirs,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    fetch,
    forwarded_apis,
    groups,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    transactions,
)
from broker.apis.api_parts import ApiParts
from broker.apis.cluster import describe_cluster, describe_quorum, metadata
from broker.apis.producing import produce
from broker.apis.router import Handle
from broker.apis.security import acls, describe_quotas, describe_users, sasl_authenticate
from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from penstock.messages.admin_apis import DESCRIBE_METADATA
from penstock.messages.security.acls import Operation

SERVED: Final[tuple[Served, ...]] = (
    *produce.SERVED,
    *fetch.SERVED,
    *list_offsets.SERVED,
    *offset_for_leader_epoch.SERVED,
    *delete_records.SERVED,
    *describe_producers.SERVED,
    *init_producer_id.SERVED,
    *metadata.SERVED,
    *describe_cluster.SERVED,
    *describe_quorum.SERVED,
    *describe_configs.SERVED,
    *describe_log_dirs.SERVED,
    *alter_replica_log_dirs.SERVED,
    Served(
        api=DESCRIBE_METADATA,
        rule=of_cluster(Operation.DESCRIBE),
        make=lambda parts: parts.describe_metadata.handle,
    ),
    *forwarded_apis.SERVED,
    *groups.SERVED,
    *transactions.SERVED,
    *sasl_authenticate.SERVED,
    *acls.SERVED,
    *describe_quotas.SERVED,
    *describe_users.SERVED,
)

RULES: Final = {row.name: row.rule for row in SERVED if row.rule is not None}
"""The rules of all APIs that clients may ask, by the names of requests on their way through the node."""
JUDGED_IN_PARTS: Final = frozenset(row.name for row in SERVED if row.judged_in_parts)
AUDITED_OFTEN: Final = frozenset(row.name for row in SERVED if row.audited_often)


def handlers(parts: ApiParts) -> dict[str, Handle]:
    """The handlers by name."""
    return {row.name: row.handler(parts) for row in SERVED}
