"""The memory of large answers is used again: without it every answer costs page faults for all that it is cut into."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from penstock.client.wire import large_buffers

PROGRAM = """
import resource, sys

if sys.argv[1] == "reused":
    with open(sys.argv[2]) as module:
        exec(module.read())
    reuse_large_buffers()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    answers = [b"x" * 2_080_000 for _ in range(4)]
    parts = [answer[:1_040_000] for answer in answers]
    del answers, parts
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how, large_buffers.__file__]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's threshold")
def test_the_memory_of_large_answers_is_used_again() -> None:
    assert page_faults("reused") < page_faults("as it is") / 5
