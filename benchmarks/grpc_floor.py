"""Empty calls by Python's gRPC, the floor of whatever is asked by it: TOTAL CLIENTS. Prints one JSON object.

Three processes, each with a bare asyncio server on uvloop, send a message of 256 bytes back and do nothing else. The
callers are those of quorum_client.py: CLIENTS in one process, each with one call on its way, in turn at the three. A
decision of the quorum is at least one such call, and most are two, before a follower has heard of it. Not here: a node,
a log, or what is made of the figures (quorum.py).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import ExitStack

import grpc.aio
import uvloop

from benchmarks.quorum_client import TIMEOUT_S, timed

PATH = "/floor.Floor/Ask"
MESSAGE = b"v" * 256
SERVERS = 3
SERVE = "serve"


class _Floor(grpc.GenericRpcHandler):
    """Answers every call."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(_answer)


async def _answer(request: bytes, context: object) -> bytes:
    return request


async def serve() -> None:
    """Serves until standard input ends; prints the port."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Floor(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


async def ask(ports: list[int], total: int, clients: int) -> dict[str, float]:
    """Calls a second, and the latency of one in milliseconds."""
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}") for port in ports]
    calls = [channel.unary_unary(PATH) for channel in channels]

    async def ask_once(client: int) -> None:
        await calls[client % len(calls)](MESSAGE, timeout=TIMEOUT_S)

    row = await timed(ask_once, total, clients)
    for channel in channels:
        await channel.close()
    return row | {"failed": 0}


def main() -> None:
    """Measures once, or serves."""
    if sys.argv[1] == SERVE:
        uvloop.run(serve())
        return
    command = [sys.executable, "-m", "benchmarks.grpc_floor", SERVE]
    with ExitStack() as stack:
        servers = []
        for _ in range(SERVERS):
            server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            servers.append(stack.enter_context(server))
        ports = [int(server.stdout.readline()) for server in servers if server.stdout is not None]
        print(json.dumps(asyncio.run(ask(ports, int(sys.argv[1]), int(sys.argv[2])))))
        for server in servers:
            if server.stdin is not None:
                server.stdin.close()


if __name__ == "__main__":
    main()
