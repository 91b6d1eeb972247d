"""The APIs of clients' quotas, at a broker's listeners.

Not here: what a row has (api.py), and what limits are for (client_apis.py).
"""

from __future__ import annotations

from typing import Final

from penstock.messages.api import KIB, MIB, Api, ApiKind, ApiLimits, Operation
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security import quotas

PARTS_MAX: Final = len(quotas.ENTITY_TYPES)
ALTER_CLIENT_QUOTAS: Final = Api(
    "AlterClientQuotas",
    quotas.AlterClientQuotasRequest,
    quotas.AlterClientQuotasResponse,
    ApiKind.FORWARDED,
    ApiLimits(MIB, {"alterations": NAMES_MAX, "alterations.changes": NAMES_MAX}, "one decision of the controller"),
    Operation.ALTER_CONFIGS,
    lambda answer: answer.results,
    tells_offset=True,
)
DESCRIBE_CLIENT_QUOTAS: Final = Api(
    "DescribeClientQuotas",
    quotas.DescribeClientQuotasRequest,
    quotas.DescribeClientQuotasResponse,
    ApiKind.LOCAL,
    ApiLimits(16 * KIB, {"parts": PARTS_MAX}, "one part for each kind of entity"),
    Operation.DESCRIBE_CONFIGS,
)
