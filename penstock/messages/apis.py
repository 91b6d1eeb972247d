"""The table of APIs: listeners, outgoing calls, router, controller, limits, metrics and pages loop over it.

A row is an `Api` in client_apis.py, groups/group_apis.py, transactions/transaction_apis.py, admin_apis.py,
voter_apis.py, feature_apis.py, security/user_apis.py, security/acl_apis.py, security/quota_apis.py or
nodes/node_apis.py; what a row has is api.py's.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.messages import admin_apis, client_apis, feature_apis, voter_apis
from penstock.messages.api import Api, ApiKind
from penstock.messages.groups import group_apis
from penstock.messages.nodes import node_apis
from penstock.messages.security import acl_apis, quota_apis, user_apis
from penstock.messages.transactions import transaction_apis

_PAGES: Final = (
    client_apis,
    group_apis,
    transaction_apis,
    admin_apis,
    voter_apis,
    feature_apis,
    user_apis,
    acl_apis,
    quota_apis,
    node_apis,
)
APIS: Final[dict[str, Api[Any, Any]]] = {
    row.name: row for page in _PAGES for row in vars(page).values() if isinstance(row, Api)
}
"""The APIs by name, in the order of the pages."""
BY_REQUEST: Final = {row.request: row for row in APIS.values() if row.kind is not ApiKind.QUORUM}
"""The APIs by the type of the request."""
