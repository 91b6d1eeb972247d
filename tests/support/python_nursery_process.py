"""The process of python_nursery.py: `python -P python_nursery_process.py ADDRESS MODULE…`; it ends with its standard
input. Forked processes have the modules imported, and none of them run.

A forked process gets SIGTERM when the command that asked for it is gone, as Spark would have sent it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from types import ModuleType

MESSAGE_BYTES_MAX = 192 * 1024
INPUT = 0


@dataclass(frozen=True, slots=True)
class Forked:
    """One process, the descriptor that is readable when it has ended, and the command that asked for it."""

    pid: int
    ended: int
    command: socket.socket


class Nursery:
    """Forks for each command that connects."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address)
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        for source in (INPUT, self._listener):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                forked: Forked | None = key.data
                if key.fd == INPUT:
                    return
                if forked is None:
                    self._fork(self._listener.accept()[0])
                elif key.fd == forked.ended:
                    self._on_end(forked)
                else:
                    self._selector.unregister(forked.command)
                    signal.pidfd_send_signal(forked.ended, signal.SIGTERM)

    def _fork(self, command: socket.socket) -> None:
        message, descriptors, _, _ = socket.recv_fds(command, MESSAGE_BYTES_MAX, 3)
        if not message:  # it was killed before
            command.close()
            return
        pid = os.fork()
        if not pid:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()  # not its number alone: its end would close what has the number by then
                elif key.fd != INPUT:
                    os.close(key.fd)
            self._selector.close()
            command.close()
            _run(message, descriptors)
            raise SystemExit
        for descriptor in descriptors:
            os.close(descriptor)
        forked = Forked(pid, os.pidfd_open(pid), command)
        for source in (forked.ended, command):
            self._selector.register(source, selectors.EVENT_READ, forked)

    def _on_end(self, forked: Forked) -> None:
        _, status = os.waitpid(forked.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._selector.unregister(forked.ended)
        os.close(forked.ended)
        with contextlib.suppress(KeyError):
            self._selector.unregister(forked.command)
        with forked.command, contextlib.suppress(OSError):
            forked.command.send(b"%d" % (code if code >= 0 else 128 - code))


def _run(message: bytes, descriptors: list[int]) -> None:
    """Runs `python -m MODULE` or `python -c CODE`, with this directory, environment and standard streams."""
    directory, count, *rest = message.decode(errors="surrogateescape").split("\0")
    (kind, what, *arguments), environ = rest[: int(count)], rest[int(count) :]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in environ)
    _open_streams()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in environ)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        is_direct = bool(number and os.environ.get("PYTHONUNBUFFERED"))
        stream = open(  # noqa: SIM115
            number,
            "w" if number else "r",
            encoding=sys.stdout.encoding,
            errors="backslashreplace" if number == 2 else "strict",
            closefd=False,
        )
        stream.reconfigure(write_through=is_direct, line_buffering=number == 2)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [directory if kind == "-m" else "", *filter(None, added)]
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main_module = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main_module.__dict__)


def _open_streams() -> None:
    """Opens the standard streams anew: each knows of its descriptor whether that can be sought in."""
    for number, (name, errors) in enumerate(
        (("stdin", sys.stdin.errors), ("stdout", sys.stdout.errors), ("stderr", "backslashreplace"))
    ):
        stream = open(number, "w" if number else "r", encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(
            line_buffering=name == "stderr", write_through=bool(number and os.environ.get("PYTHONUNBUFFERED"))
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main(address: str, modules: list[str]) -> None:
    for name in modules:
        with contextlib.suppress(ImportError):  # what is not installed here is not used either
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # in a forked process, a collection would copy the pages of all that it walks
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a module started a thread, and a process with threads cannot be forked safely")
    nursery = Nursery(address)
    print("ready", flush=True)
    nursery.serve()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
