"""Tests that were collected before the process was forked, and are run by a worker of xdist.

The finder does what pytest and xdist's worker do until the tests are collected, and the worker all that comes later.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import _prepareconfig
from _pytest.main import Failed, Session

from tests.support.few_reports import OneMessage

SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Only the finder has these in its environment: a process with threads cannot be forked safely."""


class CollectedTests:
    """A session of pytest whose tests are collected and not run yet."""

    def __init__(self, arguments: list[str], argv: list[str]) -> None:
        config = _prepareconfig(arguments, None)
        self._xdist = importlib.import_module("xdist.remote")  # not earlier: pytest rewrites the asserts of plugins
        self._xdist.setup_config(config, None)
        config._parser.prog = os.path.basename(argv[0])
        config.workerinput = {"workerid": "finder"}  # type: ignore[attr-defined]
        self._config = config
        self._session = Session.from_config(config)
        config._do_configure()
        config.hook.pytest_sessionstart(session=self._session)
        config.hook.pytest_collection(session=self._session)

    @property
    def are_sound(self) -> bool:
        return not self._session.testsfailed

    def leave_streams(self) -> None:
        """Stops capturing the standard streams until `run`: processes cannot share the files that capture them."""
        self._capturing.stop_global_capturing()

    def run(self, channel: Any) -> None:
        """As a worker runs them for the controller at the channel's other end."""
        config, session = self._config, self._session
        workerinput, _, options, _ = channel.receive()
        os.environ["PYTEST_XDIST_TESTRUNUID"] = workerinput["testrunuid"]
        os.environ["PYTEST_XDIST_WORKER"] = workerinput["workerid"]
        os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(workerinput["workercount"])
        config.workerinput, config.workeroutput = workerinput, {}  # type: ignore[attr-defined]
        config._tmp_path_factory._given_basetemp = Path(options["basetemp"])  # type: ignore[attr-defined]
        self._capturing.start_global_capturing()
        interactor = self._xdist.WorkerInteractor(config, channel)
        interactor.sendevent = OneMessage(interactor.sendevent)
        self._xdist.interactor = interactor  # type: ignore[attr-defined]  # its hook of internal errors wants it
        interactor.pytest_sessionstart(session)
        interactor.pytest_collection_finish(session)
        session.exitstatus = self._run_all()
        config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
        config._ensure_unconfigure()

    def _run_all(self) -> pytest.ExitCode:
        config = self._config
        try:
            config.hook.pytest_runtestloop(session=self._session)
        except Failed:
            return pytest.ExitCode.TESTS_FAILED
        except (KeyboardInterrupt, pytest.exit.Exception):
            config.hook.pytest_keyboard_interrupt(excinfo=pytest.ExceptionInfo.from_current())
            return pytest.ExitCode.INTERRUPTED
        except BaseException:
            config.notify_exception(pytest.ExceptionInfo.from_current(), config.option)
            return pytest.ExitCode.INTERNAL_ERROR
        return pytest.ExitCode.TESTS_FAILED if self._session.testsfailed else pytest.ExitCode.OK

    @property
    def _capturing(self) -> Any:
        return self._config.pluginmanager.getplugin("capturemanager")


HERE: list[CollectedTests] = []
"""This process has one if it was forked from a finder."""
