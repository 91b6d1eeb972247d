"""Process 1 ends at SIGTERM, also at one that came while it became another program, and leaves no zombie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.own_process.process_one import EXIT_TERMINATED, end_at_sigterm, hold_sigterm, reap_orphans

ROOT = Path(penstock.__file__).parents[1]
BEGINNING = "import os, signal\nfrom penstock.own_process.process_one import *\n"
ME = "os.kill(os.getpid(), signal.SIGTERM)\n"


def exit_code(program: str) -> int:
    done = subprocess.run([sys.executable, "-c", BEGINNING + program], cwd=ROOT, timeout=60, check=False)
    return done.returncode


def test_process_one_ends_at_sigterm_and_says_so_by_its_exit_code() -> None:
    assert exit_code(f"end_at_sigterm(1)\n{ME}signal.pause()") == EXIT_TERMINATED == 143


def test_a_sigterm_before_the_next_program_has_a_handler_is_kept_for_it() -> None:
    kept = (
        "hold_sigterm(1)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)"
    )
    following = BEGINNING + "end_at_sigterm(1)\nsignal.pause()"
    program = f"{kept}\n{ME}import sys\nos.execv(sys.executable, [sys.executable, '-c', {following!r}])"
    assert exit_code(program) == EXIT_TERMINATED


def test_a_child_of_process_one_is_reaped_by_the_kernel() -> None:
    forked = "pid = os.fork()\nif not pid: os._exit(0)\ntry: os.waitpid(pid, 0)\nexcept ChildProcessError: os._exit(7)"
    assert exit_code(f"reap_orphans(1)\n{forked}") == 7
    assert exit_code(forked) == 0


@pytest.mark.parametrize("function", [end_at_sigterm, hold_sigterm, reap_orphans])
def test_another_process_is_left_as_it_is(function: object) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)]
    assert callable(function)
    function(os.getpid())
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)] == before
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
