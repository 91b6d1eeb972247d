"""Parents and children of a fork, as real processes; `python -m tests.forks` has every combination."""

from __future__ import annotations

import pytest

from tests.forks import row
from tests.support.fake_broker import FakeCluster


@pytest.mark.parametrize(
    ("method", "parent", "child"),
    [
        ("os.fork", "busy", "fresh"),
        ("fork", "busy", "grandchild"),
        ("os.fork", "busy", "inherited"),
        pytest.param("fork", "closed", "fresh", marks=pytest.mark.long),
        pytest.param("os.fork", "closed", "grandchild", marks=pytest.mark.long),
        ("spawn", "idle", "inherited"),
    ],
)
def test_a_parent_goes_on_and_its_children_work_or_are_refused(method: str, parent: str, child: str) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        found = row(cluster.bootstrap, "t", method, parent, child, {})
    assert found["right"], found


def test_children_work_where_the_user_wants_grpcs_own_support_of_forks() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        found = row(cluster.bootstrap, "t", "os.fork", "busy", "fresh", {"GRPC_ENABLE_FORK_SUPPORT": "1"})
    assert found["right"], found
