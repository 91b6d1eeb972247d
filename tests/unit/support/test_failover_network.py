"""The network that can be cut: bytes pass, are held while a node is cut off, and pass again, in order."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from penstock.testing import Cluster
from tests.failover.network import Network

TARGET = 1


class Nodes:
    """Two nodes, of which this process is both; node 1 echoes."""

    def __init__(self, directory: Path, port: int) -> None:
        self._path = directory / "node.toml"
        self._path.write_text(f'listeners = ["BROKER://127.0.0.1:1", "INTERNAL://127.0.0.1:{port}"]\n')

    def config_path(self, index: int) -> Path:
        return self._path

    def is_running(self, index: int) -> bool:
        return True

    def pid(self, index: int) -> int:
        return os.getpid()


@contextmanager
def echo() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(4096):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join(60)


def test_a_cut_holds_what_is_said_and_loses_nothing_of_it(tmp_path: Path) -> None:
    with echo() as port, Network(2) as network:
        network.attach(cast(Cluster, Nodes(tmp_path, port)))
        (advertised,) = cast(list[str], network.node_configs[TARGET]["advertised.listeners"])
        with socket.create_connection(("127.0.0.1", int(advertised.rpartition(":")[2])), timeout=60) as client:
            client.sendall(b"before")
            assert client.recv(100) == b"before"
            network.cut(TARGET)
            client.sendall(b"during")
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.recv(100)
            network.heal(TARGET)
            client.settimeout(60)
            assert client.recv(100) == b"during"
