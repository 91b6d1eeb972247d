"""Starts the Python processes of the tests' Spark session quickly: one process has their code loaded, and is forked.

Spark executes `python -m pyspark…` for every stream that it starts and for each kind of planning, and gives it 10 s
to answer. To load pyspark, pyarrow, numpy and Penstock takes a second of a processor, 10 s on a busy machine.

    Spark ──executes──► command ──its arguments, environment and standard streams──► nursery ──fork──► python -m …
                           └──────── ends as the other one ends, with its exit code; and the other way round ┘

The command is for `PYSPARK_PYTHON`. It executes Python itself where it is asked for anything else than a module, and
where the nursery is gone. Drivers that a test starts take no part: their processes must be found in their session.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.nursery import is_wanted

MESSAGE_BYTES_MAX = 192 * 1024
"""The kernel's usual limit of one packet is 208 KiB; an environment has some."""

COMMAND = """#!/bin/sh
exec "{python}" -IS "{client}" "{python}" "{address}" "$@"
"""
OF_NURSERY = {
    "PYTHONHASHSEED": "0",  # as Spark gives it to its workers
    "OPENBLAS_NUM_THREADS": "1",  # a process with threads cannot be forked safely
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""The nursery has these in its environment, and its children have not."""


@contextlib.contextmanager
def python_nursery(place: Path) -> Iterator[Path]:
    """The command, in a directory that may be used; Python itself where nothing is forked."""
    if not is_wanted():
        yield Path(sys.executable)
        return
    address, command = place / "nursery", place / "python"
    client, program = [Path(__file__).with_name(name) for name in ("forked_python.py", "python_nursery_process.py")]
    command.write_text(COMMAND.format(python=sys.executable, client=client, address=address))
    command.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-P", str(program), str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **OF_NURSERY},
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield command
    finally:
        process.communicate()  # closes its standard input


@contextlib.contextmanager
def pythons(command: Path) -> Iterator[None]:
    """A Spark session that is made within takes this command for Python."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(command)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
