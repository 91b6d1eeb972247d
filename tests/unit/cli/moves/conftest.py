"""A skewed cluster that the commands ask."""

from __future__ import annotations

import pytest

from tests.unit.cli.moves.fake_cluster import SKEWED, FakeCluster, asked_by_commands


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    return asked_by_commands(monkeypatch, FakeCluster((1, 2, 3), SKEWED))
