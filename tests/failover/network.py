"""A network between the nodes of a local cluster that can be cut: every call from node to node goes through here.

    with Network(3) as network, Cluster(3, node_configs=network.node_configs) as cluster:
        network.attach(cluster)
        network.cut(0)

Each node advertises its INTERNAL and CONTROLLER listener at a port of this process, which carries the bytes on. Who
has connected is found in /proc (Linux): a proxy sees a port, and a port belongs to a process. A cut holds the bytes of
every connection from and to that node until it is healed, as dropped packets do: nobody is refused and nothing is
closed. A slow node gets what it fetches from other brokers at the given pace, and a node with a spoilt link gets it
with bits flipped. Clients reach every node directly.
"""

from __future__ import annotations

import asyncio
import os
import threading
import tomllib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from penstock.testing import Cluster

HOST = "127.0.0.1"
LISTENERS = ("INTERNAL", "CONTROLLER")
CHUNK_BYTES = 256 * 1024
SPOILT_BYTES_MIN = 4 * 1024
AT_ONCE = 1 << 40
"""A pace that delays nothing."""
TIMEOUT_S = 10.0
T = TypeVar("T")


class Network:
    """Proxies in front of `nodes` nodes, all of them voters."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="failover-network")
        self._ports: dict[tuple[int, str], int] = {}
        self._joined = [asyncio.Event() for _ in range(nodes)]
        self._bytes_per_s = [AT_ONCE] * nodes
        self._spoilt: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._cluster: Cluster | None = None
        for event in self._joined:
            event.set()

    def __enter__(self) -> Network:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._close())
        finally:  # the process must end all the same
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def _do(self, work: Callable[[], None]) -> None:
        async def done() -> None:
            work()

        self._run(done())

    @property
    def node_configs(self) -> list[dict[str, object]]:
        """The keys that each node's configuration sets differently from that of its cluster."""
        voters = [f"{node}@{HOST}:{self._ports[node, 'CONTROLLER']}" for node in range(self._nodes)]
        return [
            {
                "advertised.listeners": [f"INTERNAL://{HOST}:{self._ports[node, 'INTERNAL']}"],
                "controller.quorum.voters": voters,
            }
            for node in range(self._nodes)
        ]

    def attach(self, cluster: Cluster) -> None:
        """The cluster behind the proxies, before it is opened."""
        self._cluster = cluster

    def cut(self, node: int) -> None:
        """Nothing passes between this node and any other."""
        self._do(self._joined[node].clear)

    def heal(self, node: int) -> None:
        """Lets through the bytes that were held, and everything after them."""
        self._do(self._joined[node].set)

    def slow(self, node: int, bytes_per_s: int) -> None:
        """Slows what the node fetches from other brokers to this pace; its heartbeats and votes pass as before."""
        self._bytes_per_s[node] = bytes_per_s

    def hasten(self, node: int) -> None:
        """The end of `slow`."""
        self._bytes_per_s[node] = AT_ONCE

    def spoil(self, node: int) -> None:
        """A bit flips in every large piece of what the node fetches from other brokers: in records, mostly."""
        self._spoilt.add(node)

    def clean(self, node: int) -> None:
        """The end of `spoil`."""
        self._spoilt.discard(node)

    # -- on the loop ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        for node in range(self._nodes):
            for listener in LISTENERS:
                server = await asyncio.start_server(self._carrier(node, listener), HOST, 0)
                self._servers.append(server)
                self._ports[node, listener] = server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _carrier(self, node: int, listener: str) -> Callable[..., Coroutine[Any, Any, None]]:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is None:
                return
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with suppress(OSError, asyncio.CancelledError):
                try:
                    await self._carry(node, listener, reader, writer)
                finally:
                    writer.close()

        return accepted

    async def _carry(
        self, target: int, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._cluster is None:
            return
        source = _node_at(self._cluster, self._nodes, writer.get_extra_info("peername")[1])
        await self._wait_joined(source, target)
        there, back = await asyncio.open_connection(HOST, _port(self._cluster.config_path(target), listener))
        try:
            fetcher = source if listener == "INTERNAL" else None
            ways = [self._pump(source, target, reader, back), self._pump(source, target, there, writer, fetcher)]
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            back.close()

    async def _pump(
        self,
        source: int,
        target: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        fetcher: int | None = None,
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._wait_joined(source, target)
            if fetcher is not None:
                await asyncio.sleep(len(data) / self._bytes_per_s[fetcher])
            writer.write(_spoilt(data) if fetcher in self._spoilt else data)
            await writer.drain()

    async def _wait_joined(self, source: int, target: int) -> None:
        while not (self._joined[source].is_set() and self._joined[target].is_set()):
            await self._joined[source].wait()
            await self._joined[target].wait()


def _spoilt(data: bytes) -> bytes:
    """With one bit flipped, if it is large enough to be records and not the transport's own frames."""
    middle = len(data) // 2
    return data if middle < SPOILT_BYTES_MIN else data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _port(config_path: Path, listener: str) -> int:
    """Where the node itself listens."""
    listeners = tomllib.loads(config_path.read_text(encoding="utf-8"))["listeners"]
    (port,) = [item.rpartition(":")[2] for item in listeners if item.startswith(f"{listener}://")]
    return int(port)


def _node_at(cluster: Cluster, nodes: int, port: int) -> int:
    """The node whose process has this end of a connection; ConnectionError when it has closed it by now."""
    inode = _inode_of(port)
    for node in range(nodes):
        if cluster.is_running(node) and inode in _sockets_of(cluster.pid(node)):
            return node
    raise ConnectionError(f"port {port} is no node's")


def _inode_of(port: int) -> str:
    for table in ("tcp", "tcp6"):  # gRPC's sockets are of both families
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[1].endswith(f"0100007F:{port:04X}") and columns[3] == "01":  # 127.0.0.1, established
                return columns[9]
    raise ConnectionError(f"nobody is connected from port {port}")


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    return found
