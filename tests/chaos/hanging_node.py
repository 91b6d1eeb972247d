"""A node whose log dirs can hang: `penstock.node`, with another file system. The first argument has its log dirs.

Everything else is the process that ships. hung_disks.py has the other side.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from broker.node import system_environment
from penstock.node import main
from tests.support.hanging_fs import HangingFileSystem


def hanging_node_command(log_dirs: str, *arguments: str) -> list[str]:
    """In place of `penstock.node.node_command`; `log_dirs` are joined like a PATH."""
    return [sys.executable, "-P", "-m", "tests.chaos.hanging_node", log_dirs, *arguments]


if __name__ == "__main__":
    system_environment.OsFileSystem = partial(HangingFileSystem, sys.argv.pop(1).split(os.pathsep))  # type: ignore[misc, assignment]
    sys.exit(main())
