"""Promises of the command that a refusal names: it gives the right, and a name in it can be nothing but a word."""

from __future__ import annotations

import shlex

import pytest

from broker.authorization.authorizer import Authorizer
from broker.authorization.judge import Judge
from broker.authorization.remedy import COMMAND, remedy, shown_by
from metadata.image import EMPTY_IMAGE
from penstock.cli.security.acl_words import OPERATIONS
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    Need,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

USER = "User:worker"
TOPIC, GROUP, ID, CLUSTER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.CLUSTER,
)


@pytest.mark.parametrize(
    ("need", "rest"),
    [
        (Need(Operation.WRITE, TOPIC, "bills"), "-o write --topic bills"),
        (Need(Operation.READ, GROUP, "bill"), "-o read --group bill"),
        (Need(Operation.WRITE, ID, "bill-1"), "-o write --transactional-id bill-1"),
        (Need(Operation.ALTER_CONFIGS, TOPIC, "__x"), "-o alterconfigs --topic __x"),
        (Need(Operation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME), "-o idempotentwrite --cluster"),
    ],
)
def test_the_command_gives_the_right_that_was_refused(need: Need, rest: str) -> None:
    assert remedy(USER, need) == f"{COMMAND} {USER} {rest}"
    assert OPERATIONS[rest.split()[1]] is need.operation, "the command line knows the word"


@pytest.mark.parametrize(
    "name", ["a b", "a;rm", "$(id)", "`id`", "a'b", "-o", "--cluster", "a\n", "*", "", "é", "x" * 65]
)
def test_a_name_that_is_no_plain_word_is_left_out(name: str) -> None:
    """The caller chooses it, and an administrator pastes it."""
    assert remedy(USER, Need(Operation.WRITE, TOPIC, name)) == COMMAND
    assert remedy(f"User:{name} x", Need(Operation.WRITE, TOPIC, "t")) == COMMAND
    assert shlex.split(COMMAND) == ["penstock", "acls", "create"]


@pytest.mark.parametrize(
    "need",
    [
        Need(Operation.DESCRIBE, TOPIC, "t"),
        Need(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME),
        Need(Operation.WRITE, ID, "penstock.batch:7c2e"),
    ],
    ids=str,
)
def test_what_one_acl_does_not_mend_has_no_whole_command(need: Need) -> None:
    assert remedy(USER, need) == COMMAND


@pytest.mark.parametrize(
    ("name", "principal", "pattern"),
    [
        ("bills", USER, PatternType.LITERAL),
        ("bil", USER, PatternType.PREFIXED),
        ("*", USER, PatternType.LITERAL),
        ("bills", "User:*", PatternType.LITERAL),
    ],
)
def test_what_an_acl_denies_no_other_one_allows_and_the_refusal_says_so(
    name: str, principal: str, pattern: PatternType
) -> None:
    allow = AclBinding(TOPIC, "bills", USER, Operation.READ, Permission.ALLOW, "*", PatternType.LITERAL)
    deny = AclBinding(TOPIC, name, principal, Operation.ALL, Permission.DENY, "*", pattern)
    rights = Authorizer(lambda: {"1": allow, "2": deny}).rights_of(USER, "10.0.0.1")
    refusal = str(Judge(rights, EMPTY_IMAGE).refusal(Operation.READ, TOPIC, "bills"))
    assert (
        "an ACL denies it: `penstock acls list --topic bills` shows which" in refusal and "can allow it" not in refusal
    )


def test_a_deny_of_something_else_is_not_told() -> None:
    denies = (
        AclBinding(TOPIC, "bills", USER, Operation.WRITE, Permission.DENY, "*", PatternType.LITERAL),
        AclBinding(TOPIC, "bills", USER, Operation.READ, Permission.DENY, "10.0.0.9", PatternType.LITERAL),
        AclBinding(TOPIC, "bills", "User:other", Operation.READ, Permission.DENY, "*", PatternType.LITERAL),
        AclBinding(TOPIC, "bill", USER, Operation.READ, Permission.DENY, "*", PatternType.LITERAL),
    )
    rights = Authorizer(lambda: {str(n): acl for n, acl in enumerate(denies)}).rights_of(USER, "10.0.0.1")
    refusal = str(Judge(rights, EMPTY_IMAGE).refusal(Operation.READ, TOPIC, "bills"))
    assert refusal.endswith(f"; an administrator can allow it: `{COMMAND} {USER} -o read --topic bills`")


def test_the_command_that_shows_the_acls_has_plain_words_alone() -> None:
    assert shown_by(Need(Operation.READ, GROUP, "a;rm")) == "penstock acls list"
    assert shown_by(Need(Operation.ALTER, CLUSTER, CLUSTER_NAME)) == "penstock acls list --cluster"
