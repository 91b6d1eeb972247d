"""Gives a process that was started without standard streams a null device in the place of each.

A daemon, a cron job or a shell (`<&-`, `2>&-`) may start a program with descriptor 0, 1 or 2 closed. The next file or
socket that the program opens would get that number, and whatever writes to standard error, Python or gRPC, would write
into it. Standard input and output are opened the wrong way round, as the GNU tools do: a read or write of them fails
with "Bad file descriptor" instead of giving an empty input, or a result that nobody can read. Messages to a closed
standard error are lost without a word. Not here: what a command says about it (penstock/cli/edge/run.py).
"""

from __future__ import annotations

import io
import os
import sys

_MODES = (os.O_WRONLY, os.O_RDONLY, os.O_RDWR)
"""How the null device is opened, by descriptor."""


LOG_NAME_VARIABLE = "PENSTOCK_LOG_NAME"
"""Set by a process whose nodes write to one place: what begins each line of a node's log."""


def open_standard_streams() -> None:
    """Opens those of the descriptors 0, 1 and 2 that are closed; child processes inherit them."""
    for number, mode in enumerate(_MODES):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, mode)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
    # Python has None where it found the descriptor closed. `closefd`: the number stays taken when such an object goes.
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    if sys.stdout is None:
        sys.stdout = _writer(1)
    if sys.stderr is None:
        sys.stderr = _writer(2)


def give_up_unwritten() -> None:
    """Drops what a full or closed standard output or error did not take; otherwise Python tries again as it ends, says
    so, and ends with exit code 120. Output from now on goes nowhere."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)


def _writer(number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), "utf-8", "backslashreplace")
