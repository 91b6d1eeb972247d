"""Rights are remembered within bounds, whatever clients ask for, and forgotten rights are judged anew."""

from __future__ import annotations

from broker.authorization.authorizer import Authorizer, RightsLimits
from penstock.messages.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType

READS = AclBinding(ResourceType.TOPIC, "a", "User:anna", Operation.READ, Permission.ALLOW, "*", PatternType.PREFIXED)


def test_a_caller_that_names_many_topics_fills_no_memory() -> None:
    limits = RightsLimits(rights_of_caller=10)
    rights = Authorizer(lambda: {"1": READS}, limits=limits).rights_of("User:anna", "10.0.0.1")
    for number in range(35):
        assert rights.allows(Operation.READ, ResourceType.TOPIC, f"a{number}")
        assert not rights.allows(Operation.READ, ResourceType.TOPIC, f"b{number}")
        assert len(rights._known) <= 10


def test_many_callers_together_fill_no_memory() -> None:
    authorizer = Authorizer(lambda: acls, limits=RightsLimits(callers=20, rights=100))
    acls = {"1": READS}
    for caller in range(60):
        for number in range(10):
            rights = authorizer.rights_of("User:anna", f"10.0.0.{caller}")
            assert rights.allows(Operation.READ, ResourceType.TOPIC, f"a{number}")
            assert len(authorizer._rights) <= 20
            assert sum(len(one._known) for one in authorizer._rights.values()) <= 110


def test_rights_are_the_same_object_until_the_acls_change() -> None:
    acls = {"1": READS}
    authorizer = Authorizer(lambda: acls)
    before = authorizer.rights_of("User:anna", "10.0.0.1")
    assert authorizer.rights_of("User:anna", "10.0.0.1") is before
    assert authorizer.rights_of("User:anna", "10.0.0.2") is not before
    acls = {}
    after = authorizer.rights_of("User:anna", "10.0.0.1")
    assert not after.allows(Operation.READ, ResourceType.TOPIC, "a")
    assert not after.allows_any(Operation.READ, ResourceType.TOPIC)
