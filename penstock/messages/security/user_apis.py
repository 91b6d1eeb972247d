"""The APIs of clients that set and show who may log in with a password.

Not here: what a row has (api.py), what limits are for (client_apis.py), and the log-in itself.
"""

from __future__ import annotations

from typing import Final

from penstock.messages import repetitions
from penstock.messages.api import MIB, Api, ApiKind, ApiLimits, Operation
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security import users

ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    "AlterUserScramCredentials",
    users.AlterUserScramCredentialsRequest,
    users.AlterUserScramCredentialsResponse,
    ApiKind.FORWARDED,
    ApiLimits(2 * MIB, {"deletions": NAMES_MAX, "upsertions": NAMES_MAX}),
    Operation.ALTER,
    lambda answer: answer.users,
    repetitions.removed_before,
    tells_offset=True,
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    "DescribeUserScramCredentials",
    users.DescribeUserScramCredentialsRequest,
    users.DescribeUserScramCredentialsResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"users": NAMES_MAX}, "no user means all of them, in pages of as many"),
    Operation.DESCRIBE,
    lambda answer: answer.users,
)
