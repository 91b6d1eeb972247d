"""The description of users: their mechanisms, in pages, and nothing that helps to log in."""

from __future__ import annotations

from typing import cast

import pytest

from broker.apis.security.describe_users import USERS_MAX, DescribeUsersApi
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from metadata.scram import ScramImage, ScramKey
from penstock.errors import DuplicateResourceError, InvalidRequestError, ResourceNotFoundError
from penstock.messages.security.users import (
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

SHA_256, SHA_512 = (ScramCredential.stand_in(kind, "any", b"") for kind in ScramMechanism)


def asked(
    users: dict[str, tuple[ScramCredential, ...]], *names: str, after: str = ""
) -> DescribeUserScramCredentialsResponse:
    credentials = {ScramKey(user, one.mechanism.value): one for user, own in users.items() for one in own}
    image = MetadataImage(offset=7, scram=ScramImage(credentials, "secret"))
    body = DescribeUserScramCredentialsRequest(names, after)
    request = Request("DescribeUserScramCredentials", body, Sink(), CALLER, NOW_NS)
    DescribeUsersApi(lambda: image).handle(request, body)
    return cast(DescribeUserScramCredentialsResponse, request.response)


def described(users: tuple[DescribedUser, ...]) -> dict[str, list[tuple[str, int]]]:
    return {one.user: [(info.mechanism_name, info.iterations) for info in one.credentials] for one in users}


def test_all_users_are_told_by_name_with_their_mechanisms() -> None:
    answer = asked({"bob": (SHA_512, SHA_256), "alice": (SHA_256,)})
    assert list(described(answer.users).items()) == [
        ("alice", [("SCRAM-SHA-256", 4096)]),
        ("bob", [("SCRAM-SHA-256", 4096), ("SCRAM-SHA-512", 4096)]),
    ]
    assert not answer.has_more and answer.metadata_offset == 7


def test_many_users_are_told_in_pages() -> None:
    users = {f"u{number:05}": (SHA_256,) for number in range(2 * USERS_MAX)}
    first = asked(users)
    second = asked(users, after=first.users[-1].user)
    assert [len(first.users), len(second.users)] == [USERS_MAX, USERS_MAX]
    assert first.has_more and not second.has_more
    assert [one.user for one in (*first.users, *second.users)] == sorted(users)


def test_users_that_are_named_are_told_or_have_their_error() -> None:
    answer = asked({"alice": (SHA_256,), "bob": (SHA_256,)}, "bob", "nobody", "alice", "bob")
    assert {one.user: type(one.error) for one in answer.users} == {
        "bob": DuplicateResourceError,
        "nobody": ResourceNotFoundError,
        "alice": type(None),
    }
    assert described(answer.users)["bob"] == []


def test_a_page_of_named_users_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        asked({}, "alice", after="alice")
