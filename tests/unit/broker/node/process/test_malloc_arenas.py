"""Promises about malloc: threads that allocate at once share two arenas, and freed buffers are used again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from broker.node.process.malloc_arenas import keep_freed_memory

COUNT_ARENAS = """
import ctypes, re, tempfile, threading
from broker.node.process.malloc_arenas import limit_malloc_arenas
if {limited}:
    assert limit_malloc_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
meeting = threading.Barrier(12)
def allocate():
    meeting.wait()
    for _ in range(200):
        libc.malloc(ctypes.c_size_t(100_000))
threads = [threading.Thread(target=allocate) for _ in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    out = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, out)
    libc.fclose(out)
    print(len(re.findall("<heap ", file.read().decode())))
"""


COUNT_FAULTS = """
import resource
from broker.node.process.malloc_arenas import keep_freed_memory
if {kept}:
    assert keep_freed_memory()
def answer():
    return [bytearray(200_000) for _ in range(12)]
answer()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    answer()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

OPTIONS = ("MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
NOTHING_SET = {key: value for key, value in os.environ.items() if key not in OPTIONS}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt's arenas are glibc's")
@pytest.mark.parametrize("limited", [True, False])
def test_threads_that_allocate_at_once_share_two_arenas(limited: bool) -> None:
    script = COUNT_ARENAS.replace("{limited}", str(limited))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True, env=NOTHING_SET
    )
    assert (int(done.stdout) <= 2) is limited


@pytest.mark.parametrize(
    "environment", [{"MALLOC_ARENA_MAX": "4"}, {"GLIBC_TUNABLES": "glibc.malloc.perturb=0:glibc.malloc.arena_max=4"}]
)
def test_the_number_that_an_operator_has_set_stays(environment: dict[str, str]) -> None:
    script = "from broker.node.process.malloc_arenas import limit_malloc_arenas; print(limit_malloc_arenas())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=NOTHING_SET | environment,
    )
    assert done.stdout == "False\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt's thresholds are glibc's")
@pytest.mark.parametrize("kept", [True, False])
def test_the_buffers_of_an_answer_are_the_pages_of_the_one_before(kept: bool) -> None:
    script = COUNT_FAULTS.replace("{kept}", str(kept))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True, env=NOTHING_SET
    )
    assert (int(done.stdout) < 1_000) is kept


@pytest.mark.parametrize(
    "environment", [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}]
)
def test_thresholds_that_an_operator_has_set_stay(environment: dict[str, str]) -> None:
    assert not keep_freed_memory(environment)
