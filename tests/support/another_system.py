"""A Python start-up file that takes away what Linux alone has, so that a node and its clients run as on macOS.

Names of os, socket, time and select that macOS does not have are deleted, /proc is not there, `sys.platform` says
darwin, and a file is synced by F_FULLFSYNC, which is counted in a file. What it cannot show: gRPC's library, the kernel
and the file systems are Linux'.
"""

from __future__ import annotations

import os
from pathlib import Path

STARTUP = """
import asyncio, builtins, ctypes.util, errno, fcntl, io, multiprocessing, os, platform, select, selectors, socket
import ssl, subprocess, sys, sysconfig, tempfile, time, urllib.request, uuid

sysconfig.get_config_vars()  # it looks for a file that is named for the platform
GONE = {
    os: "fdatasync posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity memfd_create RWF_NOWAIT waitid"
        " eventfd pidfd_open splice copy_file_range getrandom O_DIRECT O_TMPFILE O_PATH",
    socket: "TCP_INFO TCP_USER_TIMEOUT TCP_QUICKACK SO_PEERCRED SO_BINDTODEVICE AF_NETLINK",
    time: "CLOCK_BOOTTIME",
    select: "epoll",
    selectors: "EpollSelector",
}
for module, names in GONE.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
selectors.DefaultSelector = selectors.PollSelector


def hidden(call):
    def hides(path=".", *given, **named):
        if isinstance(path, (str, bytes, os.PathLike)):
            text = os.fsdecode(path)
            if text == "/proc" or text.startswith("/proc/"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
        return call(path, *given, **named)
    return hides


for module, names in {os: "open stat lstat listdir scandir readlink access", io: "open", builtins: "open"}.items():
    for name in names.split():
        setattr(module, name, hidden(getattr(module, name)))

fcntl.F_FULLFSYNC = 51
_fcntl, _fsync, SYNCS = fcntl.fcntl, os.fsync, os.environ["PENSTOCK_TEST_SYNCS"]


def as_macos(fd, command, *given):
    if command != fcntl.F_FULLFSYNC:
        return _fcntl(fd, command, *given)
    with open(SYNCS, "a") as file:
        file.write(f"{os.getpid()}\\n")
    return _fsync(fd)


fcntl.fcntl = as_macos
sys.platform = "darwin"
"""


def environment(directory: Path) -> dict[str, str]:
    """For a process, and for its children, which inherit it. `directory` is for the start-up file and the count."""
    (directory / "sitecustomize.py").write_text(STARTUP, encoding="utf-8")
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, (str(directory), before)))
    return {**os.environ, "PYTHONPATH": path, "PENSTOCK_TEST_SYNCS": str(directory / "syncs")}
