"""Starts Python processes of Spark and of tests quickly: one process has their code loaded, and is forked.

Spark executes `python -m pyspark…` for every stream that it starts and for each kind of planning, and gives it 10 s
to answer. To load pyspark, pyarrow, numpy and Penstock takes a second of a processor, 10 s on a busy machine.

    Spark ──executes──► command ──its arguments, environment and standard streams──► nursery ──fork──► python -m …
                           └──────── ends as the other one ends, with its exit code; and the other way round ┘

The command is for `PYSPARK_PYTHON`, and `quick_python` gives one for programs that use Penstock. It executes Python
itself where it is asked for anything else than a module or code, and where the nursery is gone. Drivers that a test
starts take no part: their processes must be found in their session.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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


OF_SPARK = (
    "pandas",
    "numpy",
    "pyarrow.parquet",
    "pyspark.sql.worker.utils",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.datasource",
    "penstock.spark.source",
    "penstock.spark.batch_reader",
    "penstock.spark.stream_reader",
    "penstock.spark.writing",
)
"""Spark's processes import these modules."""
OF_PROGRAMS = (
    "penstock.cli.main",
    "typer._adapters",
    "grpc.aio",
    "penstock.client.admin.admin",
    "penstock.client.consumer.consumer",
    "penstock.client.producer.producer",
    "penstock.client.wire.channel",
)
"""Programs that use Penstock import these."""
OF_NODES = ("broker.node.process.preflight", "broker.node.commands.format", "broker.node.server")
"""A node imports these modules."""


@contextlib.contextmanager
def python_nursery(place: Path, modules: Sequence[str] = OF_SPARK) -> Iterator[Path]:
    """The command, in a directory that may be used; Python itself where nothing is forked."""
    if not is_wanted():
        yield Path(sys.executable)
        return
    address, command = place / "nursery", place / "python"
    client, program = [Path(__file__).with_name(name) for name in ("forked_python.py", "python_nursery_process.py")]
    command.write_text(COMMAND.format(python=sys.executable, client=client, address=address))
    command.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-P", str(program), str(address), *modules],
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


@functools.cache
def quick_python(modules: Sequence[str] = OF_PROGRAMS) -> str:
    """A command for `python -c CODE` and `python -m MODULE` that has these modules loaded.

    Not for a program that must be killed, or gets a signal: that is another process than the command's."""
    ends = contextlib.ExitStack()
    atexit.register(ends.close)
    place = ends.enter_context(tempfile.TemporaryDirectory(prefix="penstock-programs-"))
    return str(ends.enter_context(python_nursery(Path(place), modules)))


def quick_node_command(*arguments: str) -> list[str]:
    """`penstock.node.node_command`, for an action or a start that ends by itself."""
    return [quick_python(OF_NODES), "-m", "penstock.node", *arguments]


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
