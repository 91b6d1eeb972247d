"""DescribeUserScramCredentials: the users that may log in with a password, and by which mechanisms (KIP-554).

The answer is from this node's own image. Salts and keys are never sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from metadata.scram import ScramImage
from penstock.errors import ApiError, DuplicateResourceError, InvalidRequestError, ResourceNotFoundError
from penstock.messages.security.acls import Operation
from penstock.messages.security.user_apis import DESCRIBE_USER_SCRAM_CREDENTIALS
from penstock.messages.security.users import (
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialInfo,
)

USERS_MAX = DESCRIBE_USER_SCRAM_CREDENTIALS.limits.elements["users"]
_SHOWN_CHARACTERS = 64


class DescribeUsersApi:
    """Handles descriptions of users."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(self, request: Request, body: DescribeUserScramCredentialsRequest) -> None:
        if body.users and body.after:
            raise InvalidRequestError("the request names users, so there is no user behind which to go on")
        image = self._image()
        names, has_more = list(dict.fromkeys(body.users)), False
        if not names:
            names = sorted({key.user for key in image.scram.credentials if key.user > body.after})
            names, has_more = names[:USERS_MAX], len(names) > USERS_MAX
        times = Counter(body.users)
        users = tuple(_described(image.scram, name, times[name]) for name in names)
        request.complete(DescribeUserScramCredentialsResponse(users, has_more, image.offset), users)


def _described(scram: ScramImage, user: str, times: int) -> DescribedUser:
    """`times` is how often the request names the user; 0 if it asks for all."""
    found = tuple(ScramCredentialInfo(one.mechanism.value, one.iterations) for one in scram.of_user(user))
    error: ApiError | None = None
    if times > 1:
        found, error = (), DuplicateResourceError(f"user {user[:_SHOWN_CHARACTERS]!r} is named twice in the request")
    elif not found:
        error = ResourceNotFoundError(f"there is no user {user[:_SHOWN_CHARACTERS]!r} with SCRAM credentials")
    return DescribedUser(user, found, error)


SERVED: Final = (
    Served(
        api=DESCRIBE_USER_SCRAM_CREDENTIALS,
        rule=of_cluster(Operation.DESCRIBE),
        make=lambda parts: DescribeUsersApi(parts.image).handle,
    ),
)
