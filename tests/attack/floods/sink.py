"""The control of a flood: the flooder's work without the node.

A child takes all that it is sent and throws it away; the flooder opens connections to it and sends. What the honest
clients lose beside that is the machine's doing, and no fault of the node.
"""

from __future__ import annotations

import multiprocessing
import socket
import threading
from typing import Final

from tests.attack.floods.herd import Steps

NAME: Final = "nobody"
BLOCK: Final = bytes(16 << 10)
BLOCKS_EACH: Final = 16


def _drain(server: socket.socket) -> None:
    """Takes everything, until its process is ended."""

    def read(connection: socket.socket) -> None:
        with connection:
            while connection.recv(1 << 16):
                continue

    while True:
        connection, _ = server.accept()
        threading.Thread(target=read, args=(connection,), daemon=True).start()


def against_nobody() -> Steps:
    """Connections with some hundred kB each."""
    server = socket.create_server(("127.0.0.1", 0))
    child = multiprocessing.get_context("fork").Process(target=_drain, args=(server,), daemon=True)
    child.start()
    try:
        while True:
            with socket.create_connection(server.getsockname()) as one:
                for _ in range(BLOCKS_EACH):
                    one.sendall(BLOCK)
                    yield 0.0
    finally:
        child.terminate()
        child.join()
