"""The workers of `pytest -n` are forked from one process that has found the tests, in place of finding them each.

To import 1,000 files of tests and all that they import takes 20 s of a processor, and xdist lets each worker do it.

    controller ──"with these arguments"──► finder: loads and collects the tests ──fork──► worker
         └──executes──► command ──its standard streams──► finder                            │
         └───────────────── execnet's messages, on the command's standard streams ──────────┘

A worker that is forked goes on where xdist's own stands after its collection (collected_tests.py). The command executes
an ordinary worker where the finder is gone: tests that cannot be collected are told by those. So it is outside Linux,
and with PENSTOCK_FRESH_NODES.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import execnet
import pytest
from xdist.workermanage import WorkerController

from tests.support import worker_main
from tests.support.collected_tests import SINGLE_THREADED
from tests.support.few_reports import both_events
from tests.support.nursery import is_wanted

HERE = Path(__file__).parent


class ForkedWorkers:
    """A plugin of the controller."""

    def __init__(self) -> None:
        self._finder: subprocess.Popen[bytes] | None = None

    @pytest.hookimpl
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: Sequence[execnet.XSpec]) -> None:
        if not all(spec.popen and not (spec.python or spec.chdir or spec.via) for spec in specs):
            return  # somebody asks for other interpreters or machines
        address = f"penstock-tests-{uuid.uuid4().hex}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"\0{address}")
            listener.listen(16)
            self._finder = subprocess.Popen(
                [sys.executable, "-P", str(HERE / "collected_tests_process.py"), str(listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                env={**os.environ, **SINGLE_THREADED},
            )
        asked = {"arguments": [str(one) for one in config.invocation_params.args], "path": sys.path, "argv": sys.argv}
        assert self._finder.stdin is not None
        self._finder.stdin.write(json.dumps(asked).encode() + b"\n")
        self._finder.stdin.flush()
        command = [sys.executable, "-IS", str(HERE / "forked_worker.py"), sys.executable, address]
        for spec in specs:
            spec.python = shlex.join(command)

    @pytest.hookimpl
    def pytest_xdist_getremotemodule(self) -> ModuleType:
        return worker_main

    @pytest.hookimpl
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.process_from_remote = both_events(node.process_from_remote)  # type: ignore[method-assign]

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        if self._finder is not None:
            self._finder.communicate()  # closes its standard input


def register(config: pytest.Config) -> None:
    """For a controller, and for nobody else."""
    if is_wanted() and config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ForkedWorkers(), "penstock-forked-workers")
