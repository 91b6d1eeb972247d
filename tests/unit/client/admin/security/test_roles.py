"""The table of roles is the one of docs/security.md, and a role has no right twice and none that another implies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.admin.admin_types import Operation, PatternType, ResourceType
from penstock.client.admin.security.acls import IMPLIED_BY
from penstock.client.admin.security.roles import ROLES, Role, RoleRight, role_acls
from penstock.errors import ConfigError

DOCS = Path(__file__).resolve().parents[5] / "docs"
PAGES = ("security.md", "spark.md", "pipelines.md", "transactions.md", "clients.md", "consumer-groups.md")


def table() -> Iterator[str]:
    yield "| role | | right | for |"
    yield "| --- | --- | --- | --- |"
    for role in ROLES.values():
        for number, right in enumerate(role.rights):
            first = f"`{role.name}` | {role.summary}" if number == 0 else " | "
            yield f"| {first} | {shown(right)} | {right.use} |"


def shown(right: RoleRight) -> str:
    where = (
        f"the {right.resource_type.value}" if right.resource_type is ResourceType.CLUSTER else right.resource_type.value
    )
    named = f" `{right.every}`" if right.every else ""
    prefix = " prefix" if right.every not in ("", "*") else ""
    text = f"{right.operation.name} on {where}{prefix}{named}"
    return f"({text})" if right.is_implied else text


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    wanted = "\n".join(table())
    assert wanted in (DOCS / "security.md").read_text(encoding="utf-8"), f"docs/security.md must have:\n{wanted}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_no_role_that_there_is_not(page: str) -> None:
    named = set(re.findall(r"--role ([a-z][a-z-]+)", (DOCS / page).read_text(encoding="utf-8")))
    assert named <= set(ROLES)
    assert page != "security.md" or named | {"producer", "consumer"} == set(ROLES)


@pytest.mark.parametrize("role", ROLES.values(), ids=lambda role: role.name)
def test_a_role_has_each_right_once_and_says_which_are_implied(role: Role) -> None:
    keys = [(right.operation, right.resource_type) for right in role.rights]
    assert len(set(keys)) == len(keys)
    for right in role.rights:
        implied = {(one, right.resource_type) for one in IMPLIED_BY.get(right.operation, ())} & set(keys)
        assert right.is_implied == bool(implied), right


def test_programs_make_the_acls_of_a_role() -> None:
    names = {ResourceType.TOPIC: ["totals"]}
    topic, ids = role_acls(ROLES["spark-sink"], "User:lake", names, host="10.0.0.1")
    assert (topic.resource_name, topic.operation, topic.host) == ("totals", Operation.WRITE, "10.0.0.1")
    assert (ids.resource_name, ids.pattern_type) == ("penstock.batch:", PatternType.PREFIXED)
    with pytest.raises(ConfigError, match="spark-sink is about topics"):
        role_acls(ROLES["spark-sink"], "User:lake", {})
