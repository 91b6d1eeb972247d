"""Runs one node until it is told to stop: the process around node.py.

Reads the configuration, opens the log dirs, starts the loop (uvloop), tells systemd when the node is ready, and turns
SIGTERM and SIGINT into an ordered stop. Exit codes: 0 stopped as asked, 1 failed while running or stopped without a
log dir that hangs; a configuration or a directory that is refused, by this node or by its controller, raises, and the
launcher (penstock/node.py) says why in one line.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import logging
import os
import platform
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import uvloop

from broker.config.config import load_config
from broker.config.config_digest import changed_keys
from broker.config.config_table import KEYS
from broker.config.log_levels import parse_log_levels, without_module
from broker.config.node_config import NodeConfig
from broker.node.banner import banner
from broker.node.descriptors import plan_descriptors, raise_open_files_limit
from broker.node.environment import Environment
from broker.node.log_output import LogOutput
from broker.node.malloc_arenas import limit_malloc_arenas
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from broker.node.operator_pages import OperatorPages
from broker.node.start_status import StartStatus
from broker.node.system_environment import system_environment
from broker.node.systemd import Notifier
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError, PenstockError
from storage.disk.spare_descriptors import SPARE
from storage.disk.stop_wait import STOP_WAIT_MS
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_manager_config import LoadProgress

_log = logging.getLogger(__name__)

TURN_SECONDS = 0.25
"""Pause between two looks at whether the logs have used some of their reserve, and between two signs of the loop."""
EXIT_FAILED, EXIT_REFUSED = 1, 2
"""As the launcher's."""
REFUSALS = (ConfigError, MetaPropertiesError, CorruptFileError)
NOT_READY_SECONDS = 3
"""So long a node waits before its log says what it waits for. A line that stays the same comes again every 30 s."""
STATUS_SECONDS = 5
"""How old the line in `systemctl status` may be."""


def main(config_path: str, lost_log_dirs: tuple[str, ...] = (), log_level: str = "", log_format: str = "") -> int:
    """Run the node of this configuration file; blocks until it has stopped. What is given goes before the file."""
    config = replace(load_config(config_path), lost_log_dirs=lost_log_dirs)
    _start_log(config, config_path, log_level, log_format)
    limit_malloc_arenas()
    raise_open_files_limit()
    environment = system_environment()
    version = _version()
    runtime = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}"
    for line in banner(config, config_path, version, runtime, os.getpid()):
        _log.info("%s", line)
    pages = OperatorPages(config, version, environment.clock.now_ms)
    end_pages = pages.serve()
    descriptors = plan_descriptors(environment.descriptors_max)
    if descriptors.warning:
        _log.warning("%s", descriptors.warning)
    status = StartStatus(Notifier().status)

    def told(progress: LoadProgress) -> None:
        status.told(progress)
        pages.opening(progress)

    log_manager = open_log_dirs(config, environment, told)
    # What was made so far lives as long as the process: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    exit_code: int = uvloop.run(run_node(config, log_manager, environment, pages))
    end_pages()
    return exit_code


def _start_log(config: NodeConfig, config_path: str, log_level: str, log_format: str) -> None:
    """Levels and form as configured; SIGHUP takes them from the file again, also while the logs open."""
    forms = KEYS["logger.format"].choices
    if log_format and log_format not in forms:
        raise ConfigError(f"--log-format {log_format}: must be one of {', '.join(forms)}")
    output = LogOutput(sys.stderr, config.node_id)
    wanted = tuple(filter(None, map(str.strip, log_level.split(",")))) or config.logger_level
    logging.basicConfig(handlers=[output])

    def apply(items: Sequence[str], form: str) -> None:
        levels = parse_log_levels(items)
        output.apply(levels, form)
        for name in without_module(levels):
            _log.warning("logger.level: there is no module %s; its level does nothing", name)

    apply(wanted, log_format or config.logger_format)

    def reload(*_: object) -> None:
        try:
            found = load_config(config_path)
        except ConfigError as error:
            _log.error("SIGHUP: the log's levels stay as they were: %s", error)
            return
        apply(found.logger_level, found.logger_format)
        _log.info("SIGHUP: logger.level is %s now, logger.format %s", ",".join(found.logger_level), found.logger_format)
        changed = [key for key in changed_keys(config, found) if not key.startswith("logger.")]
        if changed:
            _log.warning("SIGHUP: %s changed in %s: a restart is needed for that", ", ".join(changed), config_path)

    signal.signal(signal.SIGHUP, reload)


def _version() -> str:
    try:
        return importlib.metadata.version("penstock")
    except importlib.metadata.PackageNotFoundError:  # run from a tree that is not installed
        return "unknown"


async def run_node(
    config: NodeConfig,
    log_manager: LogManager,
    environment: Environment,
    pages: OperatorPages,
    stop_wait_ms: int = STOP_WAIT_MS,
) -> int:
    """The node's life on the event loop; the exit code. Does not return where a log dir hangs at the stop."""
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    notifier = Notifier()
    node = Node(config, log_manager, environment, stop_wait_ms)
    pages.runs(node)
    jobs: list[asyncio.Task[None]] = [asyncio.create_task(_keep_turning(pages))]
    try:
        await node.start()
        jobs.append(asyncio.create_task(_announce(node, pages, notifier)))
        jobs.append(asyncio.create_task(_tell_status(node, notifier)))
        if notifier.watchdog_interval_ms:
            jobs.append(asyncio.create_task(_feed_watchdog(notifier)))
        node.fatal.add_done_callback(lambda _: asked_to_stop.set())
        await asked_to_stop.wait()
    finally:
        notifier.stopping()
        pages.stops()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await node.stop()
        notifier.close()
        if node.stop_wait.given_up:
            _end_process(sys.exception() or node.refusal)
    if node.refusal is not None:
        raise node.refusal
    _log.info("stopped")
    return EXIT_FAILED if node.fatal.done() else 0


def _end_process(error: BaseException | None) -> NoReturn:
    """At once: threads stand in a log dir that hangs, and the interpreter's own end would wait for them."""
    if error is not None:
        _log.error("%s", error, exc_info=None if isinstance(error, PenstockError) else error)
    _log.error("stopped without every log dir")
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_REFUSED if isinstance(error, REFUSALS) else EXIT_FAILED)


async def _announce(node: Node, pages: OperatorPages, notifier: Notifier) -> None:
    """A node waits for its quorum without an end: after a power cut nobody knows which node comes back last. Whoever
    started it may limit that (TimeoutStartSec=)."""
    ready = asyncio.create_task(node.wait_ready())
    try:
        while not (await asyncio.wait((ready,), timeout=NOT_READY_SECONDS))[0]:
            if missing := pages.first_missing():
                _log.warning("node %d is not ready yet: %s", node.config.node_id, missing)
        await ready
    finally:
        ready.cancel()
    _log.info("node %d is ready", node.config.node_id)
    notifier.ready()


async def _keep_turning(pages: OperatorPages) -> None:
    while True:
        SPARE.refill()
        pages.beat()
        await asyncio.sleep(TURN_SECONDS)


async def _tell_status(node: Node, notifier: Notifier) -> None:
    while notifier.has_listener:
        notifier.status(node.status())
        await asyncio.sleep(STATUS_SECONDS)


async def _feed_watchdog(notifier: Notifier) -> None:
    while True:
        notifier.watchdog()
        await asyncio.sleep(notifier.watchdog_interval_ms / 1000)
