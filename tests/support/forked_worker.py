"""The command of forked_workers.py: `python -IS forked_worker.py PYTHON ADDRESS [ARGUMENT…]`; it imports little.

It ends with the worker that got its standard streams. Without a finder it executes `PYTHON ARGUMENT…` itself.
"""

from __future__ import annotations

import os
import socket
import sys


def main(python: str, address: str, arguments: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as finder:
        try:
            finder.connect(f"\0{address}")
            socket.send_fds(finder, [b"fork"], [0, 1, 2])
            is_forked = bool(finder.recv(1))  # the tests are collected now, or cannot be
        except OSError:
            is_forked = False
        if not is_forked:
            os.execv(python, [python, *arguments])
        for descriptor in (0, 1):  # the worker's alone: the controller sees their end
            os.close(descriptor)
        finder.recv(1)


if __name__ == "__main__":
    main(*sys.argv[1:3], sys.argv[3:])
    os._exit(0)
