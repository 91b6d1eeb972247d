"""A proxy that delivers every byte so many ms late, in both directions: DELAY_MS; for benchmarks/slow_link.py.

Prints its host:port, reads one line with that of the node behind it, and ends with stdin. The delay is of the link, not
of the sender: what follows is taken in meanwhile, as much as is under way on a link of 1 GB/s.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque

HOST = "127.0.0.1"
CHUNK_BYTES = 256 * 1024
LINK_BYTES_PER_S = 1_000_000_000


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Until the sender ends. What is under way is bounded, as on a link."""
    loop = asyncio.get_running_loop()
    link: deque[tuple[float, bytes]] = deque()
    room, filled = asyncio.Semaphore(max(1, int(LINK_BYTES_PER_S * delay_s / CHUNK_BYTES))), asyncio.Event()

    async def deliver() -> None:
        while True:
            await filled.wait()
            filled.clear()
            while link:
                due, data = link.popleft()
                await asyncio.sleep(due - loop.time())
                room.release()
                if not data:
                    return
                writer.write(data)
                await writer.drain()

    delivering = asyncio.ensure_future(deliver())
    with contextlib.suppress(ConnectionError):
        data = b"-"
        while data:
            await room.acquire()
            data = await reader.read(CHUNK_BYTES)
            link.append((loop.time() + delay_s, data))
            filled.set()
    with contextlib.suppress(ConnectionError):
        if data:  # the connection was reset
            delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
    writer.close()


async def serve(delay_s: float) -> None:
    """Until stdin ends."""
    loop = asyncio.get_running_loop()
    target: asyncio.Future[tuple[str, int]] = loop.create_future()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inward, outward = await asyncio.open_connection(*await target)
        await asyncio.gather(carry(reader, outward, delay_s), carry(inward, writer, delay_s))

    server = await asyncio.start_server(connected, HOST, 0)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"{host}:{port}", flush=True)
    line = await loop.run_in_executor(None, sys.stdin.readline)
    host, _, port_text = line.strip().rpartition(":")
    target.set_result((host, int(port_text)))
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
