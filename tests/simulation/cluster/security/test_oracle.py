"""The oracle of a secured cluster tells right answers from wrong ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.scram import ScramImage, ScramKey
from penstock.messages.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from penstock.sasl.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from tests.simulation.cluster.security.oracle import GUEST_HOST, SecurityOracle, allows

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ANNA = "User:anna"
SHA_256 = ScramMechanism.SCRAM_SHA_256


def acl(
    operation: Operation = READ,
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
    principal: str = ANNA,
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, principal, operation, permission, host, pattern)


def image(*acls: AclBinding, password: str = "") -> MetadataImage:
    made = ScramCredential.of_password(SHA_256, password, b"salt", ITERATIONS_MIN)
    users = {ScramKey("anna", SHA_256.value): made} if password else {}
    return replace(EMPTY_IMAGE, acls={str(acl): acl for acl in acls}, scram=ScramImage(users))


class Judged:
    """An oracle, and what it has reported."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.oracle = SecurityOracle(self.found.append)

    def has(self, image: MetadataImage, now_s: float) -> None:
        self.oracle.seen(1, image, image, now_s)


DENIED = acl(permission=Permission.DENY)


@pytest.mark.parametrize(
    ("acls", "operation", "is_allowed"),
    [
        ([], READ, False),
        ([acl()], READ, True),
        ([acl()], DESCRIBE, True),
        ([acl()], WRITE, False),
        ([acl(ALL)], WRITE, True),
        ([acl(principal="User:*")], READ, True),
        ([acl(principal="User:ann")], READ, False),
        ([acl(name="order")], READ, False),
        ([acl(name="order", pattern=PatternType.PREFIXED)], READ, True),
        ([acl(name="*")], READ, True),
        ([acl(host=GUEST_HOST)], READ, True),
        ([acl(host="10.0.0.9")], READ, False),
        ([acl(ALL), DENIED], READ, False),
        ([acl(ALL), DENIED], DESCRIBE, True),
    ],
)
def test_rights_are_those_of_the_page(acls: list[AclBinding], operation: Operation, is_allowed: bool) -> None:
    assert allows(acls, ANNA, operation, "orders") is is_allowed


def test_an_answer_is_judged_by_what_the_broker_knew_while_it_was_asked() -> None:
    published = Judged()
    published.has(image(), 0.0)
    published.has(image(acl()), 5.0)
    published.oracle.answered(1, ANNA, READ, "orders", 4.0, is_allowed=True)
    published.oracle.answered(1, ANNA, READ, "orders", 4.0, is_allowed=False)
    assert not published.found
    published.oracle.answered(1, ANNA, READ, "orders", 6.0, is_allowed=False)
    published.oracle.answered(1, ANNA, WRITE, "orders", 4.0, is_allowed=True)
    assert [text[:3] for text in published.found] == ["I82", "I82"]


def test_a_log_in_is_judged_by_the_credential_that_the_broker_had() -> None:
    published = Judged()
    published.has(image(password="old"), 0.0)
    published.has(image(password="new"), 5.0)
    published.oracle.logged_in(1, "anna", "old", 4.0, is_in=True)
    published.oracle.logged_in(1, "anna", "new", 6.0, is_in=True)
    assert not published.found
    published.oracle.logged_in(1, "anna", "old", 6.0, is_in=True)
    published.oracle.logged_in(1, "anna", "new", 6.0, is_in=False)
    assert [text[:3] for text in published.found] == ["I84", "I84"]


def test_what_was_acked_must_be_there_until_somebody_asks_for_another_change() -> None:
    published, right = Judged(), acl()
    published.has(image(right, password="old"), 0.0)
    published.oracle.acl_is(right, is_there=True)
    published.oracle.password_is("anna", "old")
    published.oracle.changes([right], "anna")
    published.has(image(password="new"), 1.0)
    assert not published.found
    published.oracle.acl_is(right, is_there=True)
    published.oracle.password_is("anna", None)
    assert [text[:3] for text in published.found] == ["I83", "I83", "I83"]  # the first again, when all is looked at
