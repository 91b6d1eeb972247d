"""How many records a second one core builds and reads, beside aiokafka's compiled record code on the same records.

Prints one JSON line a row: what was done, by which code, on which records, the best of several rounds. Time is the
process's own CPU time, because everything here is one thread that never waits, and other work on the machine shall not
count; rounds of the codes take turns for the same reason. Of what aiokafka reads only values are touched, while ours
gives every column. `python benchmarks/records.py` takes about ten seconds.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from penstock.record.arrow import build_batch_from_arrow, to_arrow_columns
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_columns

TOTAL_BYTES = 4 * 1024 * 1024
"""The size of the records of one round: several fetches' worth, so that a round takes milliseconds."""
ROUNDS = 7
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Workload:
    """Records of one kind, in batches; built, encoded and as Arrow."""

    name: str
    value_bytes: int
    batch_records: int
    has_keys: bool = False
    is_varied: bool = False
    codec: Codec = Codec.NONE
    values: list[bytes] = field(default_factory=list)
    keys: list[bytes] | None = None

    def filled(self) -> Workload:
        source = random.Random(7)
        batches = max(1, TOTAL_BYTES // self.value_bytes // self.batch_records)
        words = [source.randbytes(8).hex().encode() for _ in range(500)]
        values = []
        for _ in range(self.batch_records):
            size = source.randint(self.value_bytes // 5, self.value_bytes * 9 // 5) if self.is_varied else 0
            text = b" ".join(source.choices(words, k=2 * self.value_bytes // 17 + 1))
            values.append(text[: size or self.value_bytes])
        keys = [b"key-%08d" % row for row in range(self.batch_records)] if self.has_keys else None
        return Workload(**{**self.__dict__, "name": f"{self.name} x{batches}", "values": values, "keys": keys})

    @property
    def batches(self) -> int:
        return int(self.name.rpartition("x")[2])


WORKLOADS = [
    Workload("100 B", 100, 1000),
    Workload("100 B, 12 B keys", 100, 1000, has_keys=True),
    Workload("20-180 B", 100, 1000, is_varied=True),
    Workload("100 B", 100, 100),
    Workload("100 B, lz4", 100, 1000, codec=Codec.LZ4),
    Workload("100 B, zstd", 100, 1000, codec=Codec.ZSTD),
    Workload("1 KiB", 1024, 1000),
    Workload("205-1843 B", 1024, 1000, is_varied=True),
]


def aiokafka_build(load: Workload) -> bytes:
    builder = DefaultRecordBatchBuilder(2, int(load.codec), 0, -1, -1, -1, 1 << 30)
    keys = load.keys or [None] * len(load.values)
    for offset, (key, value) in enumerate(zip(keys, load.values, strict=True)):
        builder.append(offset, NOW_MS, key, value, [])
    return bytes(builder.build())


def aiokafka_read(buffer: bytes) -> list[bytes | None]:
    values: list[bytes | None] = []
    records = MemoryRecords(buffer)
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise SystemExit("aiokafka: wrong checksum")
        values += [record.value for record in batch]
    return values


def penstock_build(load: Workload) -> bytes:
    return build_batch(load.values, keys=load.keys, timestamps_ms=NOW_MS, codec=load.codec)


def contenders(load: Workload) -> dict[tuple[str, str], Callable[[], object]]:
    """The functions to measure, by (operation, implementation); each does all batches of the workload once."""
    fetched = b"".join(
        build_batch(
            load.values,
            keys=load.keys,
            timestamps_ms=NOW_MS,
            codec=load.codec,
            base_offset=number * len(load.values),
        )
        for number in range(load.batches)
    )
    values = pa.array(load.values, pa.binary())
    keys = None if load.keys is None else pa.array(load.keys, pa.binary())
    times = range(load.batches)

    def arrow_build() -> bytes:
        return build_batch_from_arrow(values, keys=keys, timestamps_ms=NOW_MS, codec=load.codec)

    if list(read_columns(fetched).values) != aiokafka_read(fetched):
        raise SystemExit("the two readers disagree")
    if not DefaultRecordBatch(arrow_build()).validate_crc():
        raise SystemExit("aiokafka refuses the checksum")
    return {
        ("build", "penstock"): lambda: [penstock_build(load) for _ in times],
        ("build", "penstock arrow"): lambda: [arrow_build() for _ in times],
        ("build", "aiokafka compiled"): lambda: [aiokafka_build(load) for _ in times],
        ("read", "penstock"): lambda: read_columns(fetched),
        ("read", "penstock arrow"): lambda: to_arrow_columns(fetched),
        ("read", "aiokafka compiled"): lambda: aiokafka_read(fetched),
    }


def best_seconds(runs: dict[tuple[str, str], Callable[[], object]]) -> dict[tuple[str, str], float]:
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for which, run in runs.items():
            started = time.process_time()
            run()
            best[which] = min(best[which], time.process_time() - started)
    return best


def main() -> None:
    gc.disable()  # what is made has no cycles; a collection would land on whoever is running
    for load in WORKLOADS:
        filled = load.filled()
        records = filled.batches * len(filled.values)
        for (what, whose), seconds in best_seconds(contenders(filled)).items():
            row = {
                "benchmark": "records",
                "what": what,
                "code": whose,
                "values": load.name,
                "records_per_batch": load.batch_records,
                "records_per_s": round(records / seconds),
                "mb_per_s": round(sum(map(len, filled.values)) * filled.batches / seconds / 1e6),
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
