"""The control of a flood: the flooder's work without the node.

The flooder opens connections to itself and sends; a thread takes everything and throws it away. Both count as the
flooder's part of a core. What the honest clients lose beside that is the machine's doing, and no fault of the node.
"""

from __future__ import annotations

import socket
import threading
from typing import Final

from tests.attack.floods.herd import Steps

NAME: Final = "nobody"
BLOCK: Final = bytes(16 << 10)
BLOCKS_EACH: Final = 16


def _drain(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 16):
                continue


def against_nobody() -> Steps:
    """Connections with some hundred kB each."""
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_drain, args=(server,), daemon=True).start()
    while True:
        with socket.create_connection(server.getsockname()) as one:
            for _ in range(BLOCKS_EACH):
                one.sendall(BLOCK)
                yield 0.0
