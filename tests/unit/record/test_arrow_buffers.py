"""NumPy's arrays as Arrow's, without a copy and without what `pa.array` imports first."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import MessageTooLargeError
from penstock.record.arrow_buffers import booleans, fixed_width, repeated


def test_numbers_and_their_nulls_are_the_same_in_arrow() -> None:
    numbers = np.arange(-3, 10, dtype=np.int64)
    assert fixed_width(numbers, pa.int64()).to_pylist() == numbers.tolist()
    assert fixed_width(numbers[::2], pa.int64()).to_pylist() == numbers[::2].tolist(), "not contiguous"
    assert fixed_width(numbers[:0], pa.int64()).to_pylist() == []
    nulls = np.array([True] + [False] * 10 + [True, False])
    expected = [None if null else number for number, null in zip(numbers.tolist(), nulls.tolist(), strict=True)]
    found = fixed_width(numbers, pa.int64(), nulls)
    found.validate(full=True)
    assert found.to_pylist() == expected and found.null_count == 2


def test_a_type_of_another_width_is_refused() -> None:
    with pytest.raises(TypeError, match="int64 is not as wide as int32"):
        fixed_width(np.arange(3), pa.int32())


def test_a_mask_is_the_same_in_arrow() -> None:
    mask = np.arange(19) % 3 == 0
    assert booleans(mask).to_pylist() == mask.tolist()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_text_is_repeated(count: int) -> None:
    found = repeated("Übung", count)
    found.validate(full=True)
    assert found.to_pylist() == ["Übung"] * count


def test_a_text_that_is_repeated_too_often_is_refused() -> None:
    with pytest.raises(MessageTooLargeError, match="8700000 records do not fit one Arrow array"):
        repeated("t" * 249, 8_700_000)


def test_a_first_table_imports_neither_masked_arrays_nor_pandas() -> None:
    program = """
import sys
from penstock.record.arrow import to_arrow_columns
from penstock.record.builder import build_batch
from penstock.client.consumer.arrow_table import ArrowOptions, record_batch
from penstock.types import TopicPartition
data = build_batch([b"a", None, b"c"] * 20, keys=[b"k", None, None] * 20, timestamps_ms=1)
data += build_batch([b"v"] * 100, timestamps_ms=1, base_offset=60)
table = record_batch(TopicPartition("t", 0), to_arrow_columns(data, from_offset=1), ArrowOptions())
assert table.num_rows == 159
print(*({"numpy.ma", "numpy.typing", "pandas"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"
