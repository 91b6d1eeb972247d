"""The suite's files are spread over workers (`pytest -n`), and those of a worker that died go to others.

The tests of one file stay together, because they share a cluster or a cache; so do those that share a Spark session.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SPARK = "tests/integration/spark/"
SPARK_ALONE = SPARK + "test_connect_artifacts.py"
"""Starts a server of its own, and needs no session."""

RUNS_AT_LEAST = 2
"""A worker begins a test only when it knows the next one, or that there is none."""


class FilesScheduling(LoadScopeScheduling):
    """A worker gets a whole file, in the order in which the files were collected; the last worker, from the end.

    Files of real processes come first, and wait for half of their time. Those at the end use a processor all the time,
    so that neither kind is alone: what waits leaves its processor to what does not.

    A worker that dies (a crash of the interpreter) fails the test that it ran; the rest of its files goes to others.
    xdist 3.8 gives them its finished files, too; a worker that gets one of these waits for ever, and so does the run.

    xdist keeps each test that was ever given to a worker, counts all of them after each test, and looks for the place
    of each test from the begin of the list: that takes the square of their number. Here `assigned_work` has what is not
    done yet.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._places: dict[str, int] = {}
        """Each test, by its name, in the list of a worker; the list is the same for all workers."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        shares_the_session = path.startswith(SPARK) and path != SPARK_ALONE
        return SPARK if shares_the_session else path

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that the worker died of; None if it had none left."""
        files = self.assigned_work.pop(node)
        if not files:
            return None
        died_of = next(iter(next(iter(files.values()))))
        _take(files, self._split_scope(died_of), died_of)  # it is reported as failed; the next worker would die of it
        self.workqueue = OrderedDict({**files, **self.workqueue})
        for other in self.assigned_work:
            self._reschedule(other)
        return died_of

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        test = self.registered_collections[node][item_index]
        _take(self.assigned_work[node], self._split_scope(test), test)
        self._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._places:
            self._places = {test: place for place, test in enumerate(self.registered_collections[node])}
        nodes = self.nodes
        file, tests = self.workqueue.popitem(last=len(nodes) > 1 and node is nodes[-1])
        self.assigned_work[node][file] = tests
        node.send_runtest_some([self._places[test] for test in tests])

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it stands in for one that died, and still looks for the tests
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < RUNS_AT_LEAST:
            super()._reschedule(node)


def _take(files: dict[str, dict[str, bool]], file: str, test: str) -> None:
    """Removes a test that is done, and its file with the last one."""
    del files[file][test]
    if not files[file]:
        del files[file]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesScheduling:
    config.option.loadscopereorder = False
    return FilesScheduling(config, log)
