"""The judge of a simulated compacted topic finds each anomaly in rows made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.cluster.clients.keyed import KeyedTopic, Row

ONE, TWO, GONE = (b"k", b"1"), (b"k", b"2"), (b"k", None)


def judged(acked: dict[int, Row], final: dict[int, Row], *, read: dict[int, Row] | None = None) -> list[str]:
    """The first words of what is wrong; everything that was acked has been sent."""
    plan: Any = SimpleNamespace(name="t")
    topic = KeyedTopic(SimpleNamespace(), plan)  # type: ignore[arg-type]
    for offset, row in acked.items():
        topic._known.add(row)
        topic._acked[0, offset] = row
    for found, rows in ((topic._read, acked if read is None else read), (topic._final, final)):
        for offset, row in rows.items():
            topic._take(found, (0, offset), row)
    return [text.partition(":")[0] for text in topic.judge()]


def test_the_newest_record_of_a_key_is_enough() -> None:
    assert judged({0: ONE, 5: TWO}, {5: TWO}) == []


def test_the_newest_acked_record_of_a_key_must_stay() -> None:
    assert judged({0: ONE, 5: TWO}, {0: ONE}) == ["lost-write"]


def test_a_reader_may_miss_what_was_compacted_and_nothing_newer() -> None:
    assert judged({0: ONE, 5: TWO}, {5: TWO}, read={5: TWO}) == []
    assert judged({0: ONE, 5: TWO}, {5: TWO}, read={0: ONE}) == ["lost-write"]


@pytest.mark.parametrize(("final", "wrong"), [({}, []), ({0: ONE, 5: GONE}, []), ({0: ONE}, ["undeleted"])])
def test_a_deleted_key_has_no_older_record_without_its_deletion(final: dict[int, Row], wrong: list[str]) -> None:
    assert judged({0: ONE, 5: GONE}, final) == wrong


def test_an_offset_never_holds_another_record() -> None:
    assert judged({0: ONE, 5: TWO}, {0: ONE, 5: ONE}) == ["inconsistent"]


def test_a_record_that_nobody_sent_is_a_phantom() -> None:
    assert judged({0: ONE}, {0: ONE, 1: (b"k", b"?")}) == ["phantom"]
