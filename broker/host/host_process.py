"""`penstock host start`: the process of a host. One loop performs what the core decides, until SIGTERM.

It reads the nodes' messages, their ends, its signals and the control socket, and tells its own service manager what a
node would: READY=1 when every node is in service or waits for a person, and that its loop turns. SIGHUP derives the
nodes' files anew, whole or not at all, and has every node read its own. The nodes write to the host's own standard
output and error, and die with it, by whatever it ends. Exit codes: 0 every node stopped in order; 1 one of them did
not; 2 the file was refused, or every node was.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.host.host_control import HostControl
from broker.host.host_core import HAS_PROCESS, WATCHDOG_MS, Effect, HostCore, NodeState, ProcessAct
from broker.host.host_file import HostFile, load_host_file
from broker.host.host_pages import NOT_FOUND, HostPages, NodeFacts, scrape_names
from broker.host.node_files import NodeFile, node_files, page_config, write_node_files
from broker.metrics.page_server import PageServer
from broker.node.own_certificates import own_certificates
from broker.node.process.systemd import Notifier
from broker.tls.ssl_contexts import ServerContexts
from penstock.errors import ConfigError
from penstock.local_nodes.node_process import NodeProcess
from penstock.plain_text import one_line

TURN_S: Final = 0.25
"""How often the loop turns when nothing happens: so old may the end of a process be when it is seen."""
EXIT_OK, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2
IN_ORDER: Final = (EXIT_OK, -signal.SIGTERM)
"""A node ends by the signal itself where it came before the start had a handler. For systemd, too, that is success."""
MORE_SECONDS: Final = 60
METRICS: Final = "METRICS"


def main(path: str) -> int:
    """Runs the host of this file until it is told to stop; the exit code."""
    file = load_host_file(path)
    files = node_files(file)
    Path(file.directory).mkdir(parents=True, exist_ok=True)
    selector = selectors.DefaultSelector()
    control = HostControl(file.control_socket, selector)
    try:
        write_node_files(files)
        with _pages(file, files) as pages:
            return Host(file, files, control, selector, pages).run()
    finally:
        control.close()
        selector.close()


class Host:
    """The nodes of a host as processes. One thread, but for the page server's, which reads `facts`."""

    def __init__(
        self,
        file: HostFile,
        files: tuple[NodeFile, ...],
        control: HostControl,
        selector: selectors.BaseSelector,
        pages: _Pages,
    ) -> None:
        self._file, self._files, self._control = file, files, control
        self._core = HostCore(file.node_ids)
        self._nodes = {
            one.node_id: NodeProcess(f"node {one.node_id}", Path(one.path), None, watchdog_us=WATCHDOG_MS * 1_000)
            for one in files
        }
        self._names = scrape_names(file.address, {one.node_id: one.config.metrics_listener for one in files})
        self._selector = selector
        self._heard_from: dict[int, int] = {}
        """The node of each socket of messages that is read, by descriptor."""
        self._notifier = Notifier()
        self._was_ready = False
        self._bad_ends = 0
        self._signals: list[int] = []
        pages.facts = self.facts

    def run(self) -> int:
        """Starts every node; returns when the host was told to stop and all have ended, or none may start."""
        with self._signals_heard():
            self._perform(self._core.start_all(_now_ms()))
            while not self._core.is_over:
                self._turn()
                if self._core.count(NodeState.REFUSED) == len(self._nodes):
                    _say("every node was refused")
                    return EXIT_REFUSED
        return EXIT_FAILED if self._bad_ends else EXIT_OK

    def facts(self) -> list[NodeFacts]:
        """Each node as the pages show it; called in any thread."""
        core = self._core
        return [
            NodeFacts(
                one.node_id,
                self._names[one.node_id],
                one.config.metrics_listener,
                core.state_of(one.node_id),
                core.restarts_of(one.node_id),
            )
            for one in self._files
        ]

    def _turn(self) -> None:
        due_ms = self._core.next_deadline_ms
        wait_s = TURN_S if due_ms is None else min(TURN_S, max(0.0, (due_ms - _now_ms()) / 1_000))
        for key, _ in self._selector.select(wait_s):
            self._read(key.fd)
        self._obey_signals()
        for node_id, node in self._nodes.items():
            if self._core.state_of(node_id) in HAS_PROCESS and not node.is_running:
                self._ended(node_id, node)
        self._perform(self._core.tick(_now_ms()))
        self._control.expire(time.monotonic())
        self._tell_manager()

    def _read(self, descriptor: int) -> None:
        if descriptor == self._control.listening.fileno():
            self._control.came(time.monotonic())
        elif descriptor in self._control.open:
            self._control.answer(descriptor, self._answer)
        elif descriptor in self._heard_from:
            node_id = self._heard_from[descriptor]
            for line in self._nodes[node_id].read_notifications():
                self._perform(self._core.heard(node_id, line, _now_ms()))

    def _spawn(self, node_id: int, node: NodeProcess) -> None:
        try:
            node.spawn()
        except OSError as error:  # no process or no memory is left, or an installation is being replaced
            _say(f"node {node_id} cannot be started: {error.strerror or error}")
            self._perform(self._core.ended(node_id, EXIT_FAILED, _now_ms()))
            return
        self._heard_from[node.fileno()] = node_id
        self._selector.register(node.fileno(), selectors.EVENT_READ)

    def _ended(self, node_id: int, node: NodeProcess) -> None:
        descriptor = node.fileno()
        self._selector.unregister(descriptor)  # BEFORE its number is another's
        del self._heard_from[descriptor]
        code = node.wait_exit(0.0)
        self._bad_ends += self._core.state_of(node_id) is NodeState.STOPPING and code not in IN_ORDER
        self._perform(self._core.ended(node_id, EXIT_FAILED if code is None else code, _now_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if effect.said:
                _say(f"node {effect.node_id} {effect.said}")
            node = self._nodes[effect.node_id]
            if effect.act is ProcessAct.SPAWN:
                self._spawn(effect.node_id, node)
            elif effect.act is ProcessAct.TERMINATE:
                node.begin_stop()
            elif effect.act is not None and (pid := node.running_pid) is not None:
                os.kill(pid, signal.SIGABRT if effect.act is ProcessAct.ABORT else signal.SIGKILL)

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def _answer(self, do: str, node_id: int | None) -> dict[str, object]:
        if do == "status":
            return {"rack": self._file.rack, "pid": os.getpid(), "nodes": [self._shown(one) for one in self._files]}
        if node_id not in self._nodes:
            ids = self._file.node_ids
            raise ValueError(f"this host has the nodes {ids[0]} to {ids[-1]}")
        change = self._core.restart if do == "restart" else self._core.stop
        self._perform(change(node_id, _now_ms()))
        return self._shown(next(one for one in self._files if one.node_id == node_id))

    def _shown(self, file: NodeFile) -> dict[str, object]:
        node, core = self._nodes[file.node_id], self._core
        return {
            "node": file.node_id,
            "state": core.state_of(file.node_id).value,
            "since_s": (_now_ms() - core.since_ms(file.node_id)) // 1_000,
            "pid": node.running_pid,
            "restarts": core.restarts_of(file.node_id),
            "last_end": core.last_end_of(file.node_id),
            "says": node.status,
            "broker": f"{self._file.address}:{file.config.listeners['BROKER'].port}",
            "config": file.path,
        }

    # -- signals and the service manager -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals_heard(self) -> Iterator[None]:
        """SIGTERM, SIGINT and SIGHUP wake the loop."""
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, lambda number, _: self._signals.append(number)) for number in numbers}
        woken = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
        try:
            with here, there:
                yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _obey_signals(self) -> None:
        while self._signals:
            if self._signals.pop(0) == signal.SIGHUP:
                self._reload()
            else:
                self._notifier.stopping()
                self._perform(self._core.stop_all(_now_ms()))

    def _reload(self) -> None:
        try:
            file = load_host_file(self._file.path)
            files = node_files(file, looks_at_dirs=False)
            fixed = ("node_ids", "port", "directory", "metrics_listener")
            for name in fixed:
                if getattr(file, name) != getattr(self._file, name):
                    raise ConfigError(f"{file.path}: [host] {name} changes with a restart of the service only")
            write_node_files(files)
        except ConfigError as error:
            _say(f"nothing is reloaded: {error}")
            return
        _say("reloaded; each node's log says what it takes of its file")
        self._file, self._files = file, files
        for node_id, node in self._nodes.items():
            if self._core.state_of(node_id) in HAS_PROCESS and (pid := node.running_pid) is not None:
                os.kill(pid, signal.SIGHUP)

    def _tell_manager(self) -> None:
        if not self._notifier.has_listener:
            return
        running = self._core.count(NodeState.RUNNING)
        states = ", ".join(f"{one}: {self._core.state_of(one).value}" for one in self._core.node_ids)
        self._notifier.watchdog()
        self._notifier.status(f"{running} of {len(self._nodes)} nodes in service ({states})"[:900])
        if not self._was_ready and self._core.is_settled:
            self._was_ready = True
            self._notifier.ready()
        if not self._was_ready or not running:
            self._notifier.extend(MORE_SECONDS)


class _Pages:
    """The facts for the pages, once there is a host."""

    def __init__(self) -> None:
        self.facts: object = None

    def read(self) -> list[NodeFacts]:
        return self.facts() if callable(self.facts) else []


@contextlib.contextmanager
def _pages(file: HostFile, files: tuple[NodeFile, ...]) -> Iterator[_Pages]:
    """The page server for as long as the host runs, if the host has a listener for it."""
    pages = _Pages()
    if not file.metrics_listener:
        yield pages
        return
    config = page_config(file, files[0])
    certificates = own_certificates(config)
    own = None if certificates is None else certificates.of(METRICS)
    endpoint = config.metrics_listener
    assert endpoint is not None
    try:
        made = HostPages(pages.read)
        server = PageServer(endpoint, made.page_of, NOT_FOUND, None if own is None else ServerContexts(own))
    except OSError as error:
        raise ConfigError(f"{file.path}: [host] metrics.listener = {endpoint}: {error.strerror or error}") from None
    server.start()
    try:
        yield pages
    finally:
        server.stop()


def _now_ms() -> int:
    return int(time.monotonic() * 1_000)


def _say(text: str) -> None:
    sys.stderr.write(f"penstock host: {one_line(text)}\n")
    sys.stderr.flush()
