"""Spark and the jobs work with exactly the rights of their roles, and without one say at once which it is.

Each job that asks a cluster is run; what a task is refused takes Spark seconds, so that is tried once here. The whole
table is `python -m tests.rights --spark`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.client.admin.security.roles import ROLES
from tests.rights.matrix import key_of, outcomes
from tests.rights.spark import spark_tools
from tests.rights.stage import Stage, staged

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.mark.parametrize("role", ["spark-source", "spark-sink", "spark-sink-at-least-once"])
def test_the_rights_of_a_role_are_enough_and_a_missing_one_is_named_at_once(
    stage: Stage, spark: SparkSession, role: str
) -> None:
    tools = spark_tools(spark)[role]
    wrong = [f"{found}: {found.trouble}" for found in outcomes(stage, role, tools, quick=True) if found.trouble]
    assert not wrong
    needed = {key for tool in tools for key in tool.needs}
    assert {key_of(right) for right in ROLES[role].rights} == needed
