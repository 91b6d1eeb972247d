"""One program that uses a client, makes children, and tells what became of it and of them, as a JSON line.

`python -m tests.support.fork_case BOOTSTRAP TOPIC METHOD PARENT CHILD`. METHOD: a start method of multiprocessing, or
os.fork, whose children end as interpreters do. PARENT: idle, busy or closed is the client at the fork; what a closed
one left to the garbage collector is collected in the child. CHILD: fresh makes clients of its own, inherited uses the
parent's, grandchild makes one and forks again.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from penstock import Admin, Consumer, Producer
from penstock.errors import ForkedClientError

CHILDREN = 3
PATIENCE_S = 60.0
SLOW_ACK_S = 5.0


def fresh(bootstrap: str, topic: str, parents: Any) -> str:
    """A child's own producer, consumer and admin."""
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [b"child"] * 500).result(PATIENCE_S)
        producer.send(topic, b"child").result(PATIENCE_S)
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        found = consumer.poll(timeout_ms=10_000)
    with Admin(bootstrap) as admin:
        is_listed = topic in admin.list_topics()
    return "works" if found and is_listed else f"{len(found)} records, topic listed: {is_listed}"


def inherited(bootstrap: str, topic: str, parents: Any) -> str:
    """Every use of the parent's producer is refused at once, and its end does nothing."""
    producer, promise = parents
    began = time.monotonic()
    uses: dict[str, Callable[[], object]] = {
        "send": lambda: producer.send(topic, b"child"),
        "flush": producer.flush,
        "statistics": producer.statistics,
        "partitions_for": lambda: producer.partitions_for(topic),
        "result": lambda: promise.done() or promise.result(PATIENCE_S),
    }
    for name, use in uses.items():
        try:
            use()
            if name != "result":
                return f"{name} was not refused"
        except ForkedClientError:
            pass
    producer.close()
    took = time.monotonic() - began
    return "refused" if took < 1 else f"refused after {took:.1f} s"


def grandchild(bootstrap: str, topic: str, parents: Any) -> str:
    """A child that uses a client and forks in turn; its own goes on."""
    with Producer(bootstrap) as producer:
        producer.send(topic, b"child").result(PATIENCE_S)
        pid = os.fork()
        if not pid:
            outcome = fresh(bootstrap, topic, parents)
            os._exit(0 if outcome == "works" else 1)
        _, status = os.waitpid(pid, 0)
        producer.send(topic, b"child").result(PATIENCE_S)
    return "works" if not status else f"the grandchild ended with {status}"


WORK = {"fresh": fresh, "inherited": inherited, "grandchild": grandchild}
EXPECTED = {"fresh": "works", "inherited": "refused", "grandchild": "works"}


def outcome_of(name: str, *arguments: Any) -> str:
    try:
        return WORK[name](*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def tell(writer: Any, name: str, *arguments: Any) -> None:
    gc.enable()
    gc.collect()
    writer.send(outcome_of(name, *arguments))


def by_multiprocessing(method: str, name: str, arguments: tuple[Any, ...]) -> str:
    context = multiprocessing.get_context(method)
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=tell, args=(writer, name, *arguments))  # type: ignore[attr-defined]
    try:
        child.start()
    except TypeError as error:  # it must be pickled
        return "refused" if "belongs to the process that made it" in str(error) else repr(error)
    outcome = reader.recv() if reader.poll(PATIENCE_S) else "HANGS"
    child.join(PATIENCE_S)
    if child.is_alive():
        child.kill()
        return f"{outcome}, but does not end"
    return outcome if not child.exitcode else f"{outcome}, exit code {child.exitcode}"


def by_os_fork(name: str, arguments: tuple[Any, ...]) -> str:
    reader, writer = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if not pid:
        tell(writer, name, *arguments)
        sys.exit(0)
    outcome = reader.recv() if reader.poll(PATIENCE_S) else "HANGS"
    deadline = time.monotonic() + PATIENCE_S
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, 9)
        time.sleep(0.01)
    return outcome if not ended[1] else f"{outcome}, status {ended[1]}"


class Busy:
    """A thread that sends until it is told to stop, and knows the worst wait for an ack."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.worst_s, self.error, self._stop = 0.0, "", False
        self._producer, self._topic = producer, topic
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop and not self.error:
            began = time.monotonic()
            try:
                self._producer.send(self._topic, b"parent").result(PATIENCE_S)
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"
            self.worst_s = max(self.worst_s, time.monotonic() - began)

    def end(self) -> None:
        self._stop = True
        self._thread.join()


def main(bootstrap: str, topic: str, method: str, parent: str, child: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside a thread
    producer = Producer(bootstrap, linger_ms=0)
    producer.send(topic, b"parent").result(PATIENCE_S)
    promise = producer.send(topic, b"parent")
    if parent == "closed":
        gc.disable()
        producer.close()
    busy = Busy(producer, topic) if parent == "busy" else None
    parents = (producer, promise) if child == "inherited" else None
    arguments = (bootstrap, topic, parents)
    printed = set()
    for _ in range(CHILDREN):
        printed.add(
            by_os_fork(child, arguments) if method == "os.fork" else by_multiprocessing(method, child, arguments)
        )
    began = time.monotonic()
    if busy is not None:
        busy.end()
    after = "works"
    try:
        with Producer(bootstrap) as another:
            another.send(topic, b"parent").result(PATIENCE_S)
        if parent != "closed":
            producer.send(topic, b"parent").result(PATIENCE_S)
            producer.close()
    except Exception as error:
        after = f"{type(error).__name__}: {error}"
    worst_s = max(busy.worst_s if busy is not None else 0.0, time.monotonic() - began)
    if busy is not None and busy.error:
        after = busy.error
    is_right = printed == {EXPECTED[child]} and after == "works" and worst_s < SLOW_ACK_S
    line = {"children": " | ".join(sorted(printed)), "parent": after, "worst_s": round(worst_s, 2), "right": is_right}
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
