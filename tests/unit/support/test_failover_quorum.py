"""The measurement of the quorum's failover judges what it is told."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.testing import Cluster
from tests.failover import quorum


def test_a_change_that_is_acknowledged_without_a_quorum_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def done(*_: Any) -> None:
        pass

    admin = SimpleNamespace(create_topic=done, delete_topic=done, alter_topic_config=done)
    monkeypatch.setattr(quorum, "Admin", lambda *_, **__: nullcontext(admin))
    cluster = SimpleNamespace(bootstrap="", controller=lambda: 0, kill=done, start=done, wait_ready=done)
    with pytest.raises(AssertionError, match="create: done without a quorum"):
        quorum._without_quorum(cast(Cluster, cluster), done)


def test_a_run_that_kills_no_leader_has_no_times() -> None:
    assert quorum.p50_and_max_ms([]) == (None, None)
    assert quorum.p50_and_max_ms([0.1, 0.9, 0.2004]) == (200, 900)
