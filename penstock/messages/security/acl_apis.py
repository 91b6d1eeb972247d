"""The APIs of access control lists, at a broker's listeners.

Not here: what a row has (api.py), and what limits are for (client_apis.py).
"""

from __future__ import annotations

from typing import Final

from penstock.messages.api import MIB, SMALL, Api, ApiKind, ApiLimits, Operation
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security import acls

CREATE_ACLS: Final = Api(
    "CreateAcls",
    acls.CreateAclsRequest,
    acls.CreateAclsResponse,
    ApiKind.FORWARDED,
    ApiLimits(MIB, {"acls": NAMES_MAX}, "one decision of the controller"),
    Operation.ALTER,
    lambda answer: answer.results,
    tells_offset=True,
)
DELETE_ACLS: Final = Api(
    "DeleteAcls",
    acls.DeleteAclsRequest,
    acls.DeleteAclsResponse,
    ApiKind.FORWARDED,
    ApiLimits(MIB, {"filters": NAMES_MAX}, "each is compared with every ACL"),
    Operation.ALTER,
    lambda answer: answer.results,
    tells_offset=True,
)
DESCRIBE_ACLS: Final = Api(
    "DescribeAcls",
    acls.DescribeAclsRequest,
    acls.DescribeAclsResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.DESCRIBE,
)
