"""Each role's tools work with exactly its rights, and without one that they need say at once which it is.

The roles are those of `penstock acls create --role`. Spark's are in tests/integration/spark/test_rights.py; the whole
table, with each right taken from each tool, is `python -m tests.rights --spark`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.admin.security.roles import ROLES
from tests.rights.matrix import key_of, outcomes
from tests.rights.roles import TOOLS
from tests.rights.stage import Stage, staged
from tests.support.amount import usually


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.mark.parametrize("role", TOOLS)
def test_the_rights_of_a_role_are_enough_and_a_missing_one_is_named_at_once(stage: Stage, role: str) -> None:
    found = outcomes(stage, role, TOOLS[role], quick=True, one_of=usually(3, long=1))
    assert not [f"{one}: {one.trouble}" for one in found if one.trouble]


@pytest.mark.parametrize("role", [role for role in TOOLS if "+" not in role])
def test_a_role_has_no_right_that_none_of_its_tools_needs(role: str) -> None:
    needed = {key for tool in TOOLS[role] for key in tool.needs}
    assert {key_of(right) for right in ROLES[role].rights if not right.is_implied} == needed
