"""Damaged input for every decoder: python -m tests.fuzz_decoders --seconds 60 --seed 1 [--only reader].

Each decoder gets good inputs that were damaged, and must answer with a value or a typed error, within ten times the
input in memory and within 100 ms of one core. Progress goes to stderr, one JSON line to stdout; exit code 1 when a
promise is broken, and each finding then has the input and the command that makes it again. The default suite runs the
same code with a small fixed number of inputs (tests/property/test_decoders.py).

Memory is what Python, numpy and Arrow allocate at the peak. An input counts as FLOOR_BYTES at least, because an error
with its traceback and a few dozen small objects cost the same for one byte as for thousands. Where a decoder
decompresses, the cap that it was given counts as input. And a record, a line of a checkpoint or an element of a
message counts as ITEM_FLOOR_BYTES (decoders.py) at least: as Python objects it is some 200 bytes, even where it was 8
on the wire. Time is the process's own, with the tracing switched on.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from penstock.errors import InvariantViolation, PenstockError
from tests.support.decoders import DECODERS, Decoder
from tests.support.mutation import mutated
from tests.support.wire_decoders import WIRE_DECODERS

ALL_DECODERS = (*DECODERS, *WIRE_DECODERS)
MEMORY_RATIO_MAX = 10
FLOOR_BYTES = 8 * 1024
MEASURED_MAX = 3
CPU_MS_MAX = 100
FINDINGS_MAX = 20
SHOWN_BYTES = 400
SHOWN_REASON = 24
_DIGITS = re.compile(r"[0-9]+")
"""Reasons that differ only in numbers are one; how many there are shows how deep the damage got."""
WARM_UP_INPUTS = 8
"""Good ones. What a decoder imports and caches at its first use is not what an input costs."""


@dataclass(slots=True)
class Findings:
    """The findings of a campaign."""

    inputs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, set[str]] = field(default_factory=dict)
    worst_memory_ratio: dict[str, float] = field(default_factory=dict)
    worst_cpu_ms: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        return {
            "inputs": self.inputs.total(),
            "values": self.inputs.total() - self.refused.total(),
            "typed_errors": self.refused.total(),
            "broken_promises": len(self.broken),
            "worst_memory_ratio": round(max(self.worst_memory_ratio.values(), default=0), 1),
            "worst_cpu_ms": round(max(self.worst_cpu_ms.values(), default=0), 1),
            "decoders": {
                name: {
                    "inputs": self.inputs[name],
                    "typed_errors": self.refused[name],
                    "reasons": len(self.reasons.get(name, ())),
                    "worst_memory_ratio": round(self.worst_memory_ratio[name], 1),
                    "worst_cpu_ms": round(self.worst_cpu_ms[name], 1),
                }
                for name in self.inputs
            },
        }


def input_for(decoder: Decoder, seed: int, number: int) -> bytes:
    """The `number`th damaged input of a campaign."""
    random = Random(f"{seed}/{decoder.name}/{number}")
    data = mutated(random, decoder.sample(random), decoder.sample(random))
    return decoder.mend(data) if decoder.mend is not None and random.random() < 0.6 else data


def feed(decoder: Decoder, data: bytes, findings: Findings, origin: str) -> None:
    """One input; what it breaks is noted. Other threads of the process count as well, so what is over a bound is
    measured again."""
    for _ in range(MEASURED_MAX):
        error, peak_bytes, cpu_ms = _measured(decoder, data)
        ratio = peak_bytes / max(decoder.size(data), FLOOR_BYTES)
        if ratio <= MEMORY_RATIO_MAX and cpu_ms <= CPU_MS_MAX:
            break
    name = decoder.name
    findings.inputs[name] += 1
    findings.refused[name] += error is not None
    if error is not None:
        findings.reasons.setdefault(name, set()).add(_DIGITS.sub("", str(error))[:SHOWN_REASON])
    findings.worst_memory_ratio[name] = max(ratio, findings.worst_memory_ratio.get(name, 0))
    findings.worst_cpu_ms[name] = max(cpu_ms, findings.worst_cpu_ms.get(name, 0))
    broken = []
    if error is not None and (not isinstance(error, PenstockError) or isinstance(error, InvariantViolation)):
        broken.append(f"raises {error!r:.200}")
    if ratio > MEMORY_RATIO_MAX:
        broken.append(f"takes {peak_bytes} bytes for {len(data)}")
    if cpu_ms > CPU_MS_MAX:
        broken.append(f"takes {cpu_ms:.0f} ms for {len(data)} bytes")
    for what in broken:
        findings.broken.append(f"{name}: {what}; {origin}; input {data[:SHOWN_BYTES].hex()}")


def _measured(decoder: Decoder, data: bytes) -> tuple[BaseException | None, int, float]:
    """The error, the bytes at their peak, and the milliseconds of processor time."""
    error: BaseException | None = None
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    before_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    began_ns = time.process_time_ns()
    try:
        decoder.decode(data)
    except Exception as caught:  # what is no PenstockError is what is looked for
        error = caught.with_traceback(None)
    cpu_ms = (time.process_time_ns() - began_ns) / 1e6
    return error, tracemalloc.get_traced_memory()[1] - before_bytes + (pool.max_memory() or 0), cpu_ms


def run(decoders: Sequence[Decoder], seed: int, numbers: Iterable[int], until: float | None = None) -> Findings:
    """Feeds each decoder the inputs with these numbers, in turn; ends early at `until` or after FINDINGS_MAX."""
    findings = Findings()
    for decoder in decoders:
        for number in range(WARM_UP_INPUTS):
            with suppress(Exception):  # the campaign finds it too
                decoder.decode(decoder.sample(Random(number)))
    gc.collect()
    gc.freeze()  # the collections below walk what decoders leave, and nothing else of this process
    gc.disable()  # a collection would land on whoever is running
    tracemalloc.start()
    usual_pool = pa.default_memory_pool()
    try:
        for number in numbers:
            for decoder in decoders:
                origin = f"python -m tests.fuzz_decoders --seed {seed} --only '{decoder.name}' --number {number}"
                feed(decoder, input_for(decoder, seed, number), findings, origin)
            if number % 50 == 0:
                gc.collect()
            if len(findings.broken) >= FINDINGS_MAX or (until is not None and time.monotonic() >= until):
                break
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual_pool)
        gc.enable()
    return findings


def main() -> int:
    """Runs one campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_decoders", description="Damaged input, typed errors.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="decoders whose name contains this")
    parser.add_argument("--number", type=int, help="only this input of the campaign")
    arguments = parser.parse_args()
    decoders = [decoder for decoder in ALL_DECODERS if arguments.only in decoder.name]
    numbers = range(sys.maxsize) if arguments.number is None else (arguments.number,)
    findings = run(decoders, arguments.seed, numbers, time.monotonic() + arguments.seconds)
    for line in findings.broken:
        print(line, file=sys.stderr)
    print(json.dumps({"seed": arguments.seed, **findings.as_json()}))
    return 1 if findings.broken else 0


if __name__ == "__main__":
    sys.exit(main())
