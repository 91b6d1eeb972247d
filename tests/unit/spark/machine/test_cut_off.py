"""Promises about rows that were cut off: a stream that ended without Spark's last word is told from others."""

from __future__ import annotations

import io
import os
import socket
import types
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import cast

import pyarrow as pa
import pytest

from penstock.spark.machine.cut_off import has_ended, is_cut_off

LAST_WORD = b"\xff\xff\xff\xfc"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, BufferedReader]]:
    """Spark's end, and the stream of its worker."""
    spark, worker = socket.socketpair()
    with spark, worker, os.fdopen(os.dup(worker.fileno()), "rb", 65536) as stream:
        yield spark, stream


def rows(*, whole: bool) -> bytes:
    """An Arrow stream of one batch; without its end unless it is whole."""
    batch = pa.record_batch({"value": [b"a"]})
    sink = io.BytesIO()
    writer = pa.RecordBatchStreamWriter(sink, batch.schema)
    writer.write_batch(batch)
    if whole:
        writer.close()
    return sink.getvalue()


def read_by(stream: BufferedReader, name: str = "pyspark.worker") -> tuple[int, bool]:
    """The rows that PySpark's worker gives to a sink, and what the sink is told behind them."""

    def sink() -> tuple[int, bool]:
        return sum(batch.num_rows for batch in pa.ipc.open_stream(stream)), is_cut_off()

    code = compile("def main(infile, outfile, sink):\n    return sink()\n", "worker.py", "exec")
    module = types.ModuleType(name)
    exec(code, module.__dict__)
    main = cast("Callable[..., tuple[int, bool]]", module.main)  # type: ignore[attr-defined]
    return main(stream, None, sink)


def test_rows_behind_which_spark_says_its_last_word_have_ended(ends: tuple[socket.socket, BufferedReader]) -> None:
    spark, stream = ends
    spark.sendall(rows(whole=True) + LAST_WORD)
    assert read_by(stream) == (1, False)
    spark.close()
    assert not has_ended(stream) and stream.read() == LAST_WORD and has_ended(stream)


def test_a_last_word_that_has_not_come_yet_is_not_waited_for(ends: tuple[socket.socket, BufferedReader]) -> None:
    spark, stream = ends
    spark.sendall(rows(whole=True))
    assert read_by(stream) == (1, False)


def test_rows_behind_which_the_stream_is_closed_were_cut_off(ends: tuple[socket.socket, BufferedReader]) -> None:
    """pyarrow takes it for an end like any other."""
    spark, stream = ends
    spark.sendall(rows(whole=False))
    spark.shutdown(socket.SHUT_WR)
    assert read_by(stream) == (1, True)


def test_outside_of_a_worker_nothing_is_cut_off(ends: tuple[socket.socket, BufferedReader]) -> None:
    spark, stream = ends
    spark.sendall(rows(whole=False))
    spark.close()
    assert not is_cut_off()
    assert read_by(stream, "another.worker") == (1, False)
