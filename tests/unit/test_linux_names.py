"""Names that Linux alone has are used behind a seam that does without: each module that has one is listed, with its way
out.

Read from the source, so that a name that macOS lacks is found on a machine that has it. A whole node without them runs
in tests/integration/test_another_system.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("penstock", "broker", "raft", "storage", "metadata")
NAMES = {
    "os": "copy_file_range eventfd fdatasync getrandom memfd_create pidfd_open posix_fadvise posix_fallocate prlimit"
    " sched_getaffinity sched_setaffinity setns splice unshare waitid O_DIRECT O_PATH O_TMPFILE RWF_NOWAIT RWF_DSYNC",
    "socket": "AF_NETLINK AF_PACKET SO_BINDTODEVICE SO_PEERCRED TCP_INFO TCP_KEEPIDLE TCP_QUICKACK TCP_USER_TIMEOUT"
    " SOCK_CLOEXEC SOCK_NONBLOCK",
    "select": "epoll",
    "selectors": "EpollSelector",
    "signal": "sigtimedwait sigwaitinfo",
    "time": "CLOCK_BOOTTIME",
    "resource": "prlimit RUSAGE_THREAD",
    "fcntl": "F_SETPIPE_SZ F_OFD_SETLK F_ADD_SEALS",
}
"""Python's documentation has their availability. `getattr` and `hasattr` have them in quotes: no use of them."""
WAYS_OUT = {
    ("storage/disk/file_system.py", "posix_fadvise"): "hasattr: without it the page cache is believed",
    ("broker/load/thread_times.py", "sched_getaffinity"): "AttributeError: the processors' idle time is not told",
    ("broker/tls/ssl_contexts.py", "memfd_create"): "hasattr: a file of mode 600 for a moment",
    ("penstock/local_nodes/node_process.py", "waitid"): "hasattr: ps tells the state of a paused node",
}
PROC = {
    "broker/connections/accepted_sockets.py": "FileNotFoundError: no connection is found, or cut, or counted",
    "broker/load/thread_times.py": "OSError: the calling thread alone is known",
    "broker/node/process/core_files.py": "asks sys.platform; the limit of 0 stands",
    "broker/tls/ssl_contexts.py": "beside memfd_create",
    "penstock/client/forks.py": "OSError: no thread of gRPC's library is seen",
    "penstock/debug/local_node.py": "OSError: the bundle says that no process was seen",
}


def sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_each_name_of_linux_has_a_way_out() -> None:
    wanted = {module: set(names.split()) for module, names in NAMES.items()}
    found = {
        (path, node.attr)
        for path, text in sources()
        if any(name in text for names in wanted.values() for name in names)  # to parse all takes three seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.attr in wanted.get(node.value.id, ())
    }
    assert found == set(WAYS_OUT)


def test_each_path_in_proc_has_a_way_out() -> None:
    found = {path for path, text in sources() if re.search(r"""["'](/proc|/sys)(/|["'])""", text)}
    assert found == set(PROC)
