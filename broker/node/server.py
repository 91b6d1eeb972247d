"""Runs one node until it is told to stop: the process around node.py.

Reads the configuration, opens the log dirs, starts the loop (uvloop), tells systemd when the node is ready, turns
SIGTERM and SIGINT into an ordered stop, and SIGHUP into another look at the file. Exit codes: 0 stopped as asked, 1
failed while running or stopped without a log dir that hangs; a configuration or a directory that is refused, by this
node or by its controller, raises, and the launcher (penstock/node.py) says why in one line.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import platform
import random
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Protocol

import uvloop

from broker.authentication.tokens.own_tokens import own_tokens, token_warnings
from broker.authentication.tokens.ports import NO_TOKENS
from broker.config.config import load_config
from broker.config.config_check import rack_warnings
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.exposed_listeners import exposed_listeners
from broker.config.idle_keys import security_warnings
from broker.node.configuration.config_reload import ConfigReload
from broker.node.environment import Environment
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from broker.node.operator_pages import OperatorPages
from broker.node.own_certificates import certificate_warnings, own_certificates
from broker.node.process.banner import banner
from broker.node.process.core_files import keep_secrets_out_of_cores
from broker.node.process.descriptors import plan_descriptors, raise_open_files_limit
from broker.node.process.log_output import OF_NODES_LOG, NodeLog, with_log_options
from broker.node.process.malloc_arenas import keep_freed_memory, limit_malloc_arenas
from broker.node.process.start_status import StartStatus
from broker.node.process.systemd import Notifier
from broker.node.system_environment import system_environment
from broker.tls.material import NO_CERTIFICATES
from penstock.clock import SystemClock
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError, PenstockError
from penstock.own_process.standard_streams import LOG_NAME_VARIABLE
from penstock.tasks import watch
from penstock.version import __version__
from storage.disk.async_files import AioFiles
from storage.disk.spare_descriptors import SPARE
from storage.disk.stop_wait import STOP_WAIT_MS
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_manager_config import LoadProgress

if TYPE_CHECKING:
    from broker.authentication.tokens.node_tokens import NodeTokens
    from broker.tls.certificates import NodeCertificates

_log = logging.getLogger(__name__)

TURN_SECONDS = 0.25
"""Pause between two looks at whether the logs have used some of their reserve, and between two signs of the loop."""
EXIT_FAILED, EXIT_REFUSED = 1, 2
"""The exit codes of the launcher, too."""
REFUSALS = (ConfigError, MetaPropertiesError, CorruptFileError)
NOT_READY_SECONDS = 3
"""The time that a node waits before its log says what it waits for. A line that stays the same comes again every 30
s."""
MORE_SECONDS = 60
"""The time that a start or a stop may go on after the event loop was last seen turning, if the unit allows no more."""
STATUS_SECONDS = 5
"""How old the line in `systemctl status` may be."""


def main(
    config_path: str,
    lost_log_dirs: tuple[str, ...] = (),
    log_level: str = "",
    log_format: str = "",
    *,
    begins_together: bool = False,
) -> int:
    """Run the node of this configuration file; blocks until it has stopped. What is given goes before the file."""
    config = replace(load_config(config_path), lost_log_dirs=lost_log_dirs, begins_together=begins_together)
    config = with_log_options(config, log_level, log_format)
    dynamic = DynamicBrokerConfig(config)
    log = NodeLog(sys.stderr, config, os.environ.get(LOG_NAME_VARIABLE, ""))
    dynamic.listen(log.apply, *OF_NODES_LOG)
    reload = ConfigReload(config_path, dynamic)
    signal.signal(signal.SIGHUP, lambda *_: reload.now())  # until the loop runs
    faulthandler.register(signal.SIGQUIT, file=sys.stderr)  # the stacks of all threads, as of a JVM
    limit_malloc_arenas()
    keep_freed_memory()
    raise_open_files_limit()
    keep_secrets_out_of_cores(config)  # BEFORE the first one is read
    certificates = own_certificates(config)
    tokens = own_tokens(config, SystemClock(), random.Random())
    environment = system_environment(
        certificates or NO_CERTIFICATES, config.inter_broker_listener_name, tokens or NO_TOKENS
    )
    runtime = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}"
    for line in banner(config, config_path, __version__, runtime, os.getpid()):
        _log.info("%s", line)
    of_files = (*certificate_warnings(config, certificates), *token_warnings(config))
    for warning in (*exposed_listeners(config), *security_warnings(config), *rack_warnings(config), *of_files):
        _log.warning("%s", warning)
    pages = OperatorPages(config, __version__, environment.clock.now_ms)
    end_pages = pages.serve(certificates or NO_CERTIFICATES)
    descriptors = plan_descriptors(environment.descriptors_max)
    if descriptors.warning:
        _log.warning("%s", descriptors.warning)
    notifier = Notifier()
    status = StartStatus(notifier.status, notifier.extend, environment.clock)

    def on_progress(progress: LoadProgress) -> None:
        status.note(progress)
        pages.opening(progress)

    log_manager = open_log_dirs(config, environment, on_progress, status.gets_on)
    # What was made so far lives as long as the process: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    exit_code: int = uvloop.run(
        run_node(reload, log_manager, environment, pages, certificates=certificates, tokens=tokens)
    )
    end_pages()
    log.close()
    return exit_code


async def run_node(
    reload: ConfigReload,
    log_manager: LogManager,
    environment: Environment,
    pages: OperatorPages,
    stop_wait_ms: int = STOP_WAIT_MS,
    certificates: NodeCertificates | None = None,
    tokens: NodeTokens | None = None,
) -> int:
    """The node's life on the event loop; the exit code. Does not return where a log dir, or the disk of the
    configuration file or of the certificates, or the issuer of tokens, hangs at the stop."""
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reload.ask)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    notifier = Notifier()
    node = Node(reload.dynamic.file, log_manager, environment, stop_wait_ms, reload.dynamic)
    pages.runs(node)
    files = environment.threads.executor("config-file", 1)
    jobs: list[asyncio.Task[None]] = [asyncio.create_task(_keep_turning(pages))]
    asking = asyncio.create_task(ask_for_time(notifier))
    jobs.append(asyncio.create_task(reload.serve(AioFiles(files))))
    watch(jobs[-1], lambda error: _log.critical("SIGHUP does nothing any more: %r", error, exc_info=error))
    if certificates is not None:
        jobs.append(asyncio.create_task(certificates.serve(AioFiles(files))))
        watch(jobs[-1], lambda error: _log.critical("new certificates need a restart: %r", error, exc_info=error))
    issuers = environment.threads.executor("token-keys", 1)
    if tokens is not None:
        jobs.append(asyncio.create_task(tokens.serve(issuers)))
        watch(jobs[-1], lambda error: _log.critical("new public keys need a restart: %r", error, exc_info=error))
    try:
        await node.start()
        jobs.append(asyncio.create_task(_announce(node, pages, notifier, asking)))
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
        asking.cancel()
        asking = asyncio.create_task(ask_for_time(notifier))
        await node.stop()
        asking.cancel()
        notifier.close()
        files.shutdown(wait=False, cancel_futures=True)
        issuers.shutdown(wait=False, cancel_futures=True)
        if node.stop_wait.given_up:
            _end_without_log_dirs(sys.exception() or node.failures.refusal)
    if node.failures.refusal is not None:
        raise node.failures.refusal
    exit_code = EXIT_FAILED if node.fatal.done() else 0
    if any(part is not None and part.is_reading for part in (reload, certificates, tokens)):
        _log.warning("stopped; the disk of the configuration file or of the certificates, or an issuer, did not answer")
        _end_process(exit_code)
    _log.info("stopped")
    return exit_code


def _end_without_log_dirs(error: BaseException | None) -> NoReturn:
    if error is not None:
        _log.error("%s", error, exc_info=None if isinstance(error, PenstockError) else error)
    _log.error("stopped without every log dir")
    _end_process(EXIT_REFUSED if isinstance(error, REFUSALS) else EXIT_FAILED)


def _end_process(exit_code: int) -> NoReturn:
    """Ends the process at once: threads wait for a disk that hangs, and the interpreter's own end would wait for
    them."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


async def _announce(node: Node, pages: OperatorPages, notifier: Notifier, asking: asyncio.Task[None]) -> None:
    """A node waits for its quorum without an end: after a power cut nobody knows which node comes back last."""
    ready = asyncio.create_task(node.wait_ready())
    try:
        while not (await asyncio.wait((ready,), timeout=NOT_READY_SECONDS))[0]:
            if missing := pages.first_missing():
                _log.warning("node %d is not ready yet: %s", node.config.node_id, missing)
        await ready
    finally:
        ready.cancel()
    _log.info("node %d is ready", node.config.node_id)
    asking.cancel()  # BEFORE: of a node that runs, it would be about RuntimeMaxSec=
    notifier.ready()


async def _keep_turning(pages: OperatorPages) -> None:
    while True:
        SPARE.refill()
        pages.beat()
        await asyncio.sleep(TURN_SECONDS)


class AsksForTime(Protocol):
    """The part of a `Notifier` that a long start, or stop, needs."""

    @property
    def has_listener(self) -> bool: ...

    def extend(self, seconds: int) -> None: ...


async def ask_for_time(notifier: AsksForTime) -> None:
    """Asks for more time while a node starts, or stops, and its event loop turns."""
    while notifier.has_listener:
        notifier.extend(MORE_SECONDS)
        await asyncio.sleep(STATUS_SECONDS)


async def _tell_status(node: Node, notifier: Notifier) -> None:
    while notifier.has_listener:
        notifier.status(node.status())
        await asyncio.sleep(STATUS_SECONDS)


async def _feed_watchdog(notifier: Notifier) -> None:
    while True:
        notifier.watchdog()
        await asyncio.sleep(notifier.watchdog_interval_ms / 1000)
