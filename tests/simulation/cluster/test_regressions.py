"""No story fails again that once failed."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.regressions import REGRESSIONS, Regression
from tests.simulation.cluster.world import World
from tests.support.amount import usually


@pytest.mark.parametrize("regression", usually(REGRESSIONS[::3], long=REGRESSIONS), ids=lambda one: one.name)
def test_a_story_that_once_failed_is_told_to_its_end(regression: Regression) -> None:
    outcome = World(regression.plan).run()
    assert not outcome.failures, f"{outcome.failures}; once: {regression.why}"
