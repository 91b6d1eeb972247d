"""The process of nursery.py: `python -P nursery_process.py`, with the socket of its requests as standard input.

It loads a node's code, has one node live in memory, and forks for each request. Message codecs and the methods of
dataclasses are compiled when they are first used, which is half of what a node takes of a processor until it is ready.
The process in between ends at once, so that the node becomes a child of the test's process. It ends with the test's
process, whose end of the socket is closed then.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition, node

MESSAGE_BYTES_MAX = 256 * 1024
ROOT = str(Path(__file__).resolve().parents[2])


def main() -> int:
    gc.disable()  # nothing that is loaded goes away
    node.prepare_path()
    for name in ("process.preflight", "commands.format", "server"):
        importlib.import_module(f"broker.node.{name}")
    _use_a_node()
    gc.collect()
    gc.freeze()  # in a node, a collection would copy the pages of all that it walks
    gc.enable()
    requests = socket.socket(fileno=os.dup(0))
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_BYTES_MAX, 1)
        if not message:
            return 0
        request = json.loads(message)
        from_child, to_parent = os.pipe()
        between = os.fork()
        if not between:
            if pid := os.fork():
                os.write(to_parent, b"%d" % pid)
                os._exit(0)
            os.close(from_child)
            os.close(to_parent)
            requests.close()
            _become(request["environ"], descriptors[0])
            return node.main(request["arguments"])
        os.close(to_parent)
        os.close(descriptors[0])
        os.waitpid(between, 0)
        with contextlib.closing(os.fdopen(from_child, "rb")) as lines:
            requests.send(lines.read())


def _use_a_node() -> None:
    """One whole node and its clients on a simulated machine, without a thread, a socket or a file."""

    async def use(cluster: Any) -> None:
        cluster.format()
        await cluster.start()
        where: dict[str, Any] = {"bootstrap": cluster.bootstrap(), "environment": cluster.clients()}
        async with AsyncAdmin(**where) as admin, AsyncProducer(**where) as producer, AsyncConsumer(**where) as consumer:
            await admin.create_topic("used", 1, 1)
            await (await producer.send("used", b"value"))
            await consumer.assign([TopicPartition("used", 0)])
            await consumer.seek_to_beginning()
            while not await consumer.poll(100):
                continue
        await cluster.stop()

    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        del os.environ[name]  # of the test that begins first: its user is none of this node's
    sys.path.append(ROOT)
    logging.disable(logging.CRITICAL)
    try:
        importlib.import_module("tests.support.memory_cluster").run_in_memory(1, use, nodes=1)
    finally:
        logging.disable(logging.NOTSET)
        sys.path.remove(ROOT)


def _become(environ: dict[str, str], log: int) -> None:
    """The session, standard streams, environment and parent of a process that was executed."""
    os.setsid()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # Python leaves it the parent's
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, log, log)):
        os.dup2(descriptor, number)
    os.close(null)
    os.close(log)
    os.environ.clear()
    os.environ.update(environ)
    parent = int(environ[node.PARENT_VARIABLE])
    while os.getppid() != parent and os.getppid() != 1:
        time.sleep(0.001)


if __name__ == "__main__":
    sys.exit(main())
