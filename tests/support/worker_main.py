"""Runs in a worker by execnet: the tests that the process was forked with, or all that a worker of xdist does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if __name__ == "__channelexec__":
    collected = sys.modules.get("tests.support.collected_tests")
    if collected is not None and collected.HERE:
        collected.HERE[0].run(channel)  # type: ignore[name-defined]  # noqa: F821
    else:  # read, not imported: pytest, which this begins, rewrites the asserts of plugins
        xdist = importlib.util.find_spec("xdist")
        assert xdist is not None and xdist.origin is not None
        exec(Path(xdist.origin).with_name("remote.py").read_text(), globals())
