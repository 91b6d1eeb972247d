"""Every decoder survives damaged input: a value or a typed error, within 10 times the input in memory, within 100 ms.

The same code as `python -m tests.fuzz_decoders --seconds N --seed S`, with a small fixed number of inputs. Below it,
what no mutation hits: the inputs that make most of few bytes, and the bound that holds for them.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from penstock.record.arrow import to_arrow_columns
from penstock.record.batch import HEADER_BYTES, read_header
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns, read_records
from penstock.record.row_scan import scan_rows
from tests.fuzz_decoders import ALL_DECODERS, run
from tests.support.amount import usually
from tests.support.decoders import Decoder

INPUTS = usually(3, long=24)
"""Each decoder gets so many."""


@pytest.mark.parametrize("decoder", ALL_DECODERS, ids=lambda decoder: decoder.name)
def test_damaged_input_ends_in_a_value_or_a_typed_error_within_bounds(decoder: Decoder) -> None:
    findings = run([decoder], 0, range(INPUTS))

    assert not findings.broken, findings.broken[0]
    assert findings.inputs[decoder.name] == INPUTS


def test_a_campaign_is_the_same_whenever_it_is_run() -> None:
    decoders = ALL_DECODERS[:3]

    first, second = run(decoders, 7, range(20)), run(decoders, 7, range(20))

    assert first.refused == second.refused and first.reasons == second.reasons


def test_what_a_broken_decoder_does_is_found() -> None:
    def explode(data: bytes) -> object:
        if len(data) % 3 == 0:
            raise IndexError("not typed")
        return [bytearray(20 * len(data))] if len(data) % 3 == 1 else None

    broken = Decoder("broken", lambda random: random.randbytes(9_000 + random.randrange(9)), explode)

    findings = run([broken], 0, range(40)).broken

    assert any("raises IndexError('not typed')" in line for line in findings)
    assert any("takes" in line and "--only 'broken' --number" in line for line in findings)


COUNT = 3_000
RANDOM = Random(3)
SMALLEST = {
    "records of 8 bytes": build_batch([None] * COUNT, timestamps_ms=1),
    "records of 8 bytes, times to and fro": build_batch(
        [None] * COUNT, timestamps_ms=[60 + RANDOM.randrange(60) for _ in range(COUNT)]
    ),
    "short keys and values, offsets with gaps": build_batch(
        [RANDOM.randbytes(2) for _ in range(COUNT)],
        keys=[RANDOM.randbytes(RANDOM.choice((2, 3))) for _ in range(COUNT)],
        timestamps_ms=[1 << 40 | RANDOM.randrange(60) for _ in range(COUNT)],
        offset_deltas=sorted(RANDOM.sample(range(3 * COUNT), COUNT)),
    ),
    "three headers of 2 bytes each": build_batch([None] * COUNT, headers=[[("", None)] * 3] * COUNT, timestamps_ms=1),
    "8,000 headers of 2 bytes in one record": build_batch([None], headers=[[("", None)] * 8_000], timestamps_ms=1),
}
READERS: dict[str, Callable[[bytes], object]] = {
    "columns": read_columns,
    "records": read_records,
    "arrow": lambda data: to_arrow_columns(data, include_headers=True),
    "row scan": lambda data: scan_rows(
        data, HEADER_BYTES, len(data), read_header(data).record_count, read_header(data).last_offset_delta
    ),
}
SMALLEST_RATIO_MAX = 48
"""The ratio for the smallest inputs. The worst is Python's object for a header of two bytes: a tuple in a tuple with a
place in it is 72 bytes."""


@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize("reader", READERS)
def test_the_smallest_records_and_headers_cost_a_bounded_number_of_times_their_bytes(reader: str, name: str) -> None:
    data = SMALLEST[name]
    READERS[reader](build_batch([b"v"], headers=[[("h", b"")]], timestamps_ms=0))
    gc.collect()

    tracemalloc.start()
    READERS[reader](data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < SMALLEST_RATIO_MAX * len(data)
