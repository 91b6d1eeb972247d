"""The finder of forked_workers.py: `python -P collected_tests_process.py LISTENER`; it ends with its standard input."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading

WORKERS_END_S = 10.0
"""Workers end with the controller's last message, and this process without those that hang."""


def main(listener: socket.socket) -> None:
    asked = json.loads(sys.stdin.readline())
    sys.path[:] = asked["path"]
    from tests.support import collected_tests  # the path says where they are

    tests = collected_tests.CollectedTests(asked["arguments"], asked["argv"])
    tests.leave_streams()
    for name in collected_tests.SINGLE_THREADED:
        os.environ.pop(name, None)
    if not tests.are_sound:
        return  # the commands execute workers, which tell why
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a module of tests started a thread, and a process with threads cannot be forked safely")
    interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller and the workers
    workers: list[int] = []
    while listener in select.select([0, listener], [], [])[0]:
        command, _ = listener.accept()
        message, streams, _, _ = socket.recv_fds(command, 16, 3)
        pid = os.fork() if message else None
        if pid == 0:
            listener.close()
            signal.signal(signal.SIGINT, interrupts)
            threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # Python leaves it the parent's
            collected_tests.HERE.append(tests)
            _work(command, streams)
            return
        if pid:
            workers.append(os.pidfd_open(pid))
        for stream in streams:
            os.close(stream)
        command.close()
    for worker in workers:
        if select.select([worker], [], [], WORKERS_END_S)[0]:
            os.waitid(os.P_PIDFD, worker, os.WEXITED)  # so its processor time counts as the controller's, too


def _work(command: socket.socket, streams: list[int]) -> None:
    """Does what execnet tells at the command's standard input, as the Python that it believes to have executed."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    command.send(b"1")
    with command:  # its end is the command's
        exec(eval(sys.stdin.readline()), {"__name__": "__main__"})


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
