"""Connections below any protocol: silent and slow ones, and bytes that are no HTTP/2 or too much of it. All bounded.

What comes back is not looked at: the transport may answer garbage as it likes, as long as the node goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import struct
from collections.abc import Sequence
from random import Random

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, CONTINUATION = 0, 1, 3, 4, 9
CONNECT_TIMEOUT_S = 2.0
FLOOD_FRAMES, RESETS = 200, 1_000
CANCEL = struct.pack(">I", 8)
DESCRIPTORS_LEFT = 100


async def silent(host: str, ports: Sequence[int], count: int, hold_s: float) -> None:
    """Opens so many in all, holds them, and closes them."""
    found = await asyncio.gather(*(connect(host, ports[n % len(ports)]) for n in range(count)))
    await asyncio.sleep(hold_s)
    for writer in found:
        if writer is not None:
            writer.close()


async def more_than_descriptors(host: str, port: int, pid: int, hold_s: float) -> None:
    """Opens four times as many silent ones as the process has descriptors left."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    left = len(os.listdir(f"/proc/{pid}/fd")) + DESCRIPTORS_LEFT
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(left, soft), hard))
    try:
        await silent(host, [port], 4 * DESCRIPTORS_LEFT, hold_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


async def garbage(host: str, port: int, source: Random) -> None:
    """One connection of each kind to one listener."""
    request = b"\x83\x86\x04\x23/penstock.v1.Broker/DescribeCluster\x01\x01a\x0f\x10\x10application/grpc"
    start = PREFACE + _frame(SETTINGS, 0, 0)
    kinds = (
        source.randbytes(2_000),
        PREFACE[: source.randrange(len(PREFACE))],
        PREFACE + source.randbytes(2_000),
        start + _frame(HEADERS, 0, 1, b"\x82"),
        start + _frame(HEADERS, 0, 1, b"\x82") + _frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f" * 3_000) * FLOOD_FRAMES,
        start + b"".join(_reset(n, request) for n in range(RESETS)),
        start + _frame(HEADERS, 4, 1, request) + _frame(DATA, 0, 1, b"\x01\x7f\xff\xff\xff" + source.randbytes(100)),
        start + _frame(HEADERS, 4, 1, request) + _frame(DATA, 1, 1, b"\x00\x00\x00\x00\x09abc"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    await asyncio.gather(*(send_and_leave(host, port, data) for data in kinds), one_byte_at_a_time(host, port, start))


def _reset(number: int, request: bytes) -> bytes:
    stream = 2 * number + 1
    return _frame(HEADERS, 4, stream, request) + _frame(RST_STREAM, 0, stream, CANCEL)


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


async def send_and_leave(host: str, port: int, data: bytes) -> None:
    """The answer is not read."""
    writer = await connect(host, port)
    if writer is None:
        return
    with contextlib.suppress(OSError, TimeoutError):
        writer.write(data)
        await asyncio.wait_for(writer.drain(), CONNECT_TIMEOUT_S)
        await asyncio.sleep(0.2)
    writer.close()


async def one_byte_at_a_time(host: str, port: int, data: bytes) -> None:
    """With a pause after each."""
    writer = await connect(host, port)
    if writer is None:
        return
    with contextlib.suppress(OSError):
        for n in range(len(data)):
            writer.write(data[n : n + 1])
            await writer.drain()
            await asyncio.sleep(0.02)
    writer.close()


async def connect(host: str, port: int) -> asyncio.StreamWriter | None:
    """None if the node takes no connection."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_TIMEOUT_S)
    except (OSError, TimeoutError):
        return None
    return writer
