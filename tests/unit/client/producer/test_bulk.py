"""Many values become batches that fit, in order, and bad ones are refused by size and type."""

from __future__ import annotations

import pytest

from penstock.client.producer.bulk.cutting import KEYED_CHUNK_RECORDS, Run, cut_keyed, is_arrow, keyed_chunks, runs
from penstock.errors import InvalidRecordError, MessageTooLargeError


def flat(found: list[Run]) -> list[bytes | None]:
    return [value for run in found for value in run.values]


@pytest.mark.parametrize("limit", [50, 1_000, 100_000])
def test_values_are_cut_in_order_within_the_limit(limit: int) -> None:
    values = [b"x" * (n % 90) if n % 7 else None for n in range(5_000)]
    found = list(runs(iter(values), limit, 1_000))
    assert flat(found) == values
    for run in found:
        size = sum(len(value or b"") + 16 for value in run.values)
        assert size <= limit or len(run.values) == 1


def test_no_values_are_no_batches() -> None:
    assert list(runs([], 100, 100)) == []


def test_a_value_over_the_limit_is_refused_with_its_size() -> None:
    with pytest.raises(MessageTooLargeError, match=r"has 1001 bytes; the limit is max_request_size=1000"):
        list(runs([b"ok", b"x" * 931], 5_000, 1_000))


def test_a_value_that_is_not_bytes_is_refused() -> None:
    with pytest.raises(TypeError, match="takes bytes or None, not str"):
        list(runs([b"ok", "text"], 5_000, 1_000))  # type: ignore[list-item]


def test_keys_and_values_stay_together() -> None:
    values, keys = [b"v%d" % n for n in range(100)], [b"k%d" % n for n in range(100)]
    found = list(cut_keyed(values, keys, 200, 1_000))
    assert flat(found) == values
    assert [key for run in found for key in run.keys or ()] == keys


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidRecordError, match="more values than keys"):
        list(keyed_chunks([b"1", b"2"], [b"k"]))


def test_arrow_is_recognised_without_importing_it() -> None:
    pa = pytest.importorskip("pyarrow")
    assert is_arrow(pa.array([b"1"])) and not is_arrow([b"1"])


def test_values_for_a_partitioner_are_read_a_piece_at_a_time() -> None:
    values = iter([b"v"] * 3 * KEYED_CHUNK_RECORDS)
    chunk, keys = next(keyed_chunks(values, None))
    assert len(chunk) == len(keys) == KEYED_CHUNK_RECORDS and set(keys) == {None}
    assert len(list(values)) == 2 * KEYED_CHUNK_RECORDS
