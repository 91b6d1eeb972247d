"""Promises of Kafka's APIs of users: what a client of Kafka's sets and is told is what Penstock's own clients are."""

from __future__ import annotations

from broker.kafka.apis.authentication import users
from broker.kafka.schemas.security import (
    AlterUserScramCredentialsRequest,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from penstock.errors import NotControllerError, ResourceNotFoundError, UnacceptableCredentialError
from penstock.messages.security.users import (
    AlteredUser,
    AlterUserScramCredentialsResponse,
    DescribedUser,
    DescribeUserScramCredentialsResponse,
    ScramCredentialInfo,
    ScramDeletion,
    ScramUpsertion,
)
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from tests.support.kafka_plans import asked, ended, first_ask, read_by_client

SHA_256, SHA_512 = ScramMechanism
DESCRIBE, ALTER = "DescribeUserScramCredentials", "AlterUserScramCredentials"


def test_all_users_are_told_however_many_pages_they_fill() -> None:
    plan = users.describe_user_scram_credentials(asked(0), DescribeUserScramCredentialsRequest(users=None))
    first = first_ask(plan, DESCRIBE)
    assert (first.users, first.after) == ((), "")
    one = DescribedUser("anna", (ScramCredentialInfo(1, 4096), ScramCredentialInfo(2, 8192)))
    second = plan.send(DescribeUserScramCredentialsResponse((one,), has_more=True)).body
    assert (second.users, second.after) == ((), "anna")
    two = DescribedUser("bob", (ScramCredentialInfo(2, 4096),))
    answer = read_by_client(ended(plan, DescribeUserScramCredentialsResponse((two,))), 0)
    assert [(one.user, one.error_code, one.credential_infos) for one in answer.results] == [
        ("anna", 0, [CredentialInfo(mechanism=1, iterations=4096), CredentialInfo(mechanism=2, iterations=8192)]),
        ("bob", 0, [CredentialInfo(mechanism=2, iterations=4096)]),
    ]


def test_users_that_are_named_have_their_own_errors() -> None:
    body = DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")])
    plan = users.describe_user_scram_credentials(asked(0), body)
    assert first_ask(plan, DESCRIBE).users == ("nobody",)
    unknown = DescribedUser("nobody", error=ResourceNotFoundError("there is no user 'nobody'"))
    answer = read_by_client(ended(plan, DescribeUserScramCredentialsResponse((unknown,))), 0)
    assert [(one.user, one.error_code, one.error_message) for one in answer.results] == [
        ("nobody", 91, "there is no user 'nobody'")
    ]


def test_a_salted_password_becomes_the_keys_that_the_password_gives() -> None:
    salted = SHA_512.salted("pw", b"salt", 8192)
    body = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="anna", mechanism=1)],
        upsertions=[
            ScramCredentialUpsertion(name="anna", mechanism=2, iterations=8192, salt=b"salt", salted_password=salted)
        ],
    )
    plan = users.alter_user_scram_credentials(asked(0), body)
    request = first_ask(plan, ALTER)
    made = ScramCredential.of_password(SHA_512, "pw", b"salt", 8192)
    assert (request.deletions, request.upsertions) == ((ScramDeletion("anna", 1),), (ScramUpsertion.of("anna", made),))
    answer = ended(plan, AlterUserScramCredentialsResponse((AlteredUser("anna"),)))
    assert [(one.user, one.error_code) for one in read_by_client(answer, 0).results] == [("anna", 0)]


def test_what_cannot_be_a_credential_is_left_to_the_controller_to_refuse() -> None:
    body = AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(name="a", mechanism=9, iterations=4096, salt=b"salt", salted_password=bytes(32)),
            ScramCredentialUpsertion(name="b", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"short"),
        ]
    )
    plan = users.alter_user_scram_credentials(asked(0), body)
    made = first_ask(plan, ALTER).upsertions
    assert [(one.user, one.mechanism, one.stored_key, one.server_key) for one in made] == [
        ("a", 9, b"", b""),
        ("b", 1, b"", b""),
    ]
    refused = AlteredUser("b", UnacceptableCredentialError("the keys of SCRAM-SHA-256 have 32 bytes"))
    answer = read_by_client(ended(plan, AlterUserScramCredentialsResponse((refused,))), 0)
    assert [(one.user, one.error_code) for one in answer.results] == [("b", 93)]


def test_a_request_without_changes_asks_for_nothing() -> None:
    assert ended_at_once(AlterUserScramCredentialsRequest()) == []


def ended_at_once(body: AlterUserScramCredentialsRequest) -> list[object]:
    plan = users.alter_user_scram_credentials(asked(0), body)
    try:
        next(plan)
    except StopIteration as end:
        return list(end.value.results)
    raise AssertionError("it asks the node")


def test_a_request_that_fails_as_a_whole_tells_each_user() -> None:
    body = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="a", mechanism=1), ScramCredentialDeletion(name="a", mechanism=2)],
        upsertions=[ScramCredentialUpsertion(name="b", mechanism=1)],
    )
    (row,) = (one.row for one in users.SERVED if one.row.name == ALTER)
    assert row.failed is not None
    answer = read_by_client(row.failed(asked(0), body, NotControllerError("another one")), 0)
    assert [(one.user, one.error_code) for one in answer.results] == [("a", 41), ("b", 41)]
