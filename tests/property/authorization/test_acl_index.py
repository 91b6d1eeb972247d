"""The index of ACLs judges as a model does that looks at every ACL, after any adding and removing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.authorization.acl_index import AclIndex
from broker.authorization.authorizer import Authorizer
from penstock.client.admin.security.acls import judge_right
from penstock.messages.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from tests.support.amount import usually

PRINCIPALS = ("User:a", "User:b", "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "*", "::ffff:10.0.0.1", "::ffff:a00:2")
PLAIN = {"::ffff:10.0.0.1": "10.0.0.1", "::ffff:a00:2": "10.0.0.2"}
NAMES = ("a", "ab", "abc", "b", "*", "ba")
OPERATIONS = [one for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)]
RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP)
ACLS = st.builds(
    AclBinding,
    st.sampled_from(RESOURCES),
    st.sampled_from(NAMES),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
    st.sampled_from(HOSTS),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def is_of(acl: AclBinding, resource: ResourceType, name: str) -> bool:
    if acl.resource_type is not resource:
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def model(
    acls: list[AclBinding],
    everyone: bool,
    principal: str,
    host: str,
    operation: Operation,
    resource: ResourceType,
    name: str,
) -> bool:
    """StandardAuthorizer, an ACL after the other."""
    of_resource = [acl for acl in acls if is_of(acl, resource, name)]
    mine = [
        acl
        for acl in of_resource
        if acl.principal in (principal, "User:*") and PLAIN.get(acl.host, acl.host) in (host, "*")
    ]
    for acl in mine:
        if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL):
            return False
    allowing = {operation, Operation.ALL} | IMPLIED.get(operation, set())
    if any(acl.permission is Permission.ALLOW and acl.operation in allowing for acl in mine):
        return True
    return everyone and not of_resource


QUESTIONS = st.tuples(
    st.sampled_from(("User:a", "User:b", "User:c")),
    st.sampled_from(("10.0.0.1", "10.0.0.2", "10.0.0.3")),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(RESOURCES),
    st.sampled_from(("a", "ab", "abcd", "b", "c", "ba", "x", "")),
)


@settings(max_examples=usually(100, long=400), deadline=None)
@given(st.lists(ACLS, max_size=12, unique=True), st.booleans(), st.lists(QUESTIONS, min_size=1, max_size=10), st.data())
def test_the_index_judges_as_the_model(
    acls: list[AclBinding],
    everyone: bool,
    questions: list[tuple[str, str, Operation, ResourceType, str]],
    data: st.DataObject,
) -> None:
    index = AclIndex(allows_without_acls=everyone)
    for acl in acls:
        index.add(str(acl), acl)
    gone = data.draw(st.lists(st.sampled_from(acls), unique=True)) if acls else []
    for acl in gone:
        index.remove(str(acl), acl)
    left = [acl for acl in acls if acl not in gone]
    for question in questions:
        expected = model(left, everyone, *question)
        assert index.allows(*question) == expected, (question, left)
        principal, host, operation, resource, name = question
        tried = judge_right(left, principal, operation, resource, name, host, allows_without_acls=everyone)
        assert tried.is_allowed == expected  # what `penstock acls test` says is what a broker does


@settings(max_examples=usually(50, long=200), deadline=None)
@given(st.lists(ACLS, max_size=12, unique=True), st.booleans(), QUESTIONS)
def test_a_right_to_any_name_is_a_right_to_a_name_that_can_be_found(
    acls: list[AclBinding], everyone: bool, question: tuple[str, str, Operation, ResourceType, str]
) -> None:
    """Kafka's own rule judges by the patterns: where it allows, and nothing but literal denials of single names stand
    against a prefix, there is a name; where it denies, the model finds none among the names of the ACLs themselves,
    unless a right is only implied."""
    principal, host, operation, resource, _ = question
    index = AclIndex(allows_without_acls=everyone)
    for acl in acls:
        index.add(str(acl), acl)
    names = {acl.resource_name for acl in acls if acl.resource_name != "*"} | {"q-no-acl-has-this"}
    names |= {name + "~" for name in names}
    found = any(model(acls, everyone, principal, host, operation, resource, name) for name in names)
    if operation not in IMPLIED and not everyone:
        assert index.allows_any(principal, host, operation, resource) or not found


@settings(max_examples=usually(25, long=100), deadline=None)
@given(st.lists(st.lists(ACLS, max_size=6, unique=True), min_size=1, max_size=4), QUESTIONS)
def test_remembered_rights_are_those_of_the_newest_acls(
    images: list[list[AclBinding]], question: tuple[str, str, Operation, ResourceType, str]
) -> None:
    now: dict[str, AclBinding] = {}
    authorizer = Authorizer(lambda: now)
    for acls in images:
        now = {str(acl): acl for acl in acls}
        principal, host, *rest = question
        for _ in range(2):
            rights = authorizer.rights_of(principal, host)
            assert rights.allows(*rest) == model(acls, False, *question)  # type: ignore[arg-type]
            rights.allows_any(question[2], question[3])


def test_a_super_user_may_do_everything_and_nobody_else_does() -> None:
    authorizer = Authorizer(dict, ["User:admin"])
    assert authorizer.rights_of("User:admin", "10.0.0.1").allows(Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert not authorizer.rights_of("User:Admin", "10.0.0.1").allows_any(Operation.READ, ResourceType.TOPIC)


def test_an_address_of_a_dual_stack_socket_is_the_plain_one() -> None:
    acl = AclBinding(ResourceType.TOPIC, "t", "User:a", Operation.READ, Permission.ALLOW, "10.0.0.1")
    rights = Authorizer(lambda: {"1": acl}).rights_of("User:a", "::ffff:10.0.0.1")
    assert rights.allows(Operation.READ, ResourceType.TOPIC, "t")
