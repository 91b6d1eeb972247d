"""A client with a password, at work while others attack: it writes, reads, and logs in anew, and counts what fails."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from penstock import Admin, Consumer, Producer
from penstock.errors import PenstockError
from penstock.testing import Cluster

TOPIC = "honest"
PAUSE_S, LOGIN_S, READ_S = 0.02, 1.0, 30.0
REQUEST_S = 30.0


class Honest:
    """Three threads, within `with`; what was acked is read in the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._who = cluster, dict[str, Any](cluster.client_options)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._write, self._read, self._log_in)]
        self._begun = threading.Barrier(len(self._threads) + 1)
        self.acked = self.read = self.logins = 0
        self.worst_ack_s = 0.0
        self.failed: list[str] = []

    def __enter__(self) -> Honest:
        for thread in self._threads:
            thread.start()
        self._begun.wait(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(READ_S + REQUEST_S)

    def _write(self) -> None:
        with Producer(self._cluster.bootstrap, acks="all", **self._who) as producer:
            producer.send(TOPIC, value=b"first").result(REQUEST_S)
            self.acked = 1
            self._begun.wait(60)
            while not self._ended.wait(PAUSE_S):
                began = time.monotonic()
                try:
                    producer.send(TOPIC, value=b"honest").result(REQUEST_S)
                    self.acked += 1
                except (PenstockError, TimeoutError) as error:
                    self.failed.append(f"a write: {error!r}")
                self.worst_ack_s = max(self.worst_ack_s, time.monotonic() - began)

    def _read(self) -> None:
        with Consumer(self._cluster.bootstrap, auto_offset_reset="earliest", **self._who) as consumer:
            consumer.assign(consumer.partitions_for(TOPIC))
            self._begun.wait(60)
            deadline = 0.0
            while not deadline or (self.read < self.acked and time.monotonic() < deadline):
                if self._ended.is_set() and not deadline:
                    deadline = time.monotonic() + READ_S
                try:
                    self.read += len(consumer.poll(timeout_ms=200))
                except PenstockError as error:
                    self.failed.append(f"a read: {error!r}")

    def _log_in(self) -> None:
        self._begun.wait(60)
        while not self._ended.wait(LOGIN_S):
            try:
                with Admin(self._cluster.bootstrap, **self._who) as admin:
                    admin.describe_topic(TOPIC)
                self.logins += 1
            except PenstockError as error:
                self.failed.append(f"a log-in: {error!r}")

    def verdict(self) -> list[str]:
        """Everything that was not as without attackers."""
        wrong = list(self.failed)
        if self.read < self.acked:
            wrong.append(f"{self.acked} records were acked, and {self.read} read")
        return wrong
