"""The suite's files are spread over workers (`pytest -n`), and those of a worker that died go to others.

The tests of one file stay together, because they share a cluster or a cache; so do those that share a Spark session.
"""

from __future__ import annotations

from collections import OrderedDict

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SPARK = "tests/integration/spark/"
SPARK_ALONE = SPARK + "test_connect_artifacts.py"
"""Starts a server of its own, and needs no session."""

RUNS_AT_LEAST = 2
"""A worker begins a test only when it knows the next one, or that there is none."""


class FilesScheduling(LoadScopeScheduling):
    """A worker gets a whole file, in the order in which the files were collected.

    A worker that dies (a crash of the interpreter) fails the test that it ran; the rest of its files goes to others.
    xdist 3.8 gives them its finished files, too; a worker that gets one of these waits for ever, and so does the run.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        shares_the_session = path.startswith(SPARK) and path != SPARK_ALONE
        return SPARK if shares_the_session else path

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that the worker died of; None if it had none left."""
        files = {file: tests for file, tests in self.assigned_work.pop(node).items() if not all(tests.values())}
        if not files:
            return None
        file, tests = next(iter(files.items()))
        died_of = next(test for test, is_done in tests.items() if not is_done)
        tests[died_of] = True  # it is reported as failed, and would take the next worker along
        if all(tests.values()):
            del files[file]
        self.workqueue = OrderedDict({**files, **self.workqueue})
        for other in self.assigned_work:
            self._reschedule(other)
        return died_of

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it stands in for one that died, and still looks for the tests
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < RUNS_AT_LEAST:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesScheduling:
    config.option.loadscopereorder = False
    return FilesScheduling(config, log)
