"""The demo's stream: part after part, and the first failure of an earlier part ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from penstock.cli.demo.story import TOPIC, Stream
from penstock.cli.demo.text import UNLIMITED, find_text
from penstock.errors import PenstockError


class FakeFuture:
    def __init__(self, failure: PenstockError | None) -> None:
        self._failure = failure

    def exception(self, timeout: float) -> PenstockError | None:
        return self._failure

    def add_done_callback(self, on_done: Any) -> None:
        on_done(self)


class FakeProducer:
    """Also the progress bar."""

    def __init__(self, failure: PenstockError | None = None) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.failure = failure
        self.advanced = 0

    def send(self, topic: str, value: bytes, key: bytes) -> FakeFuture:
        self.sent.append((topic, key, value))
        return FakeFuture(self.failure)

    def advance(self, count: int) -> None:
        self.advanced += count


def stream(tmp_path: Path, producer: FakeProducer) -> Stream:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"1\n2\n3\n4\n5\n")
    return Stream(cast(Any, producer), find_text(tmp_path, UNLIMITED), producer)


def test_the_text_is_sent_part_after_part_line_by_line_and_summed_up(tmp_path: Path) -> None:
    producer = FakeProducer()
    sending = stream(tmp_path, producer)
    sending.send_to(0.3)
    assert producer.sent == [(TOPIC, b"a", b"%d\n" % number) for number in (1, 2, 3)]
    sending.send_to(0.3)
    assert len(producer.sent) == 3
    assert sending.send_line() is not None and producer.sent[-1] == (TOPIC, b"a", b"4\n")
    sending.send_to(1.0)
    assert [value for _, key, value in producer.sent if key == b"b"] == [b"%d\n" % number for number in range(1, 6)]
    assert sending.send_line() is None and sending.next_partition() == 0
    assert (sending.sums.records, sending.sums.size_bytes, producer.advanced) == (10, 20, 20)


def test_a_failure_of_one_part_is_raised_before_the_next(tmp_path: Path) -> None:
    producer = FakeProducer(PenstockError("no room on the disk"))
    sending = stream(tmp_path, producer)
    sending.send_to(0.3)
    with pytest.raises(PenstockError, match="no room on the disk"):
        sending.send_to(1.0)
    assert len(producer.sent) == 3
