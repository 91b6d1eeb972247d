"""Finds what a bundle has of a node on this machine: its file, its process, log dirs, log and metrics. An edge.

Nothing is changed but one thing: a running node is asked for the stacks of its threads, by SIGQUIT as a JVM is, and
writes them to its log. It is asked only if it has a handler for that signal, which ends other processes.
"""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.errors import ConfigError

LOCK: Final = ".lock"
"""The file in a log dir that a node holds (docs/data-directory.md)."""
JOURNAL_LINES: Final = 20_000
FILES_LISTED_MAX: Final = 100_000
READ_S: Final = 10.0
OF_PROCESS: Final = ("status", "limits", "io", "smaps_rollup", "cgroup", "cmdline")
"""Files of /proc/PID; never `environ`, which may have a password."""
STACKS: Final = 3
"""Samples of the stacks, STACK_PAUSE_S apart: one alone does not tell what stands still."""
STACK_PAUSE_S: Final = 0.3


class LocalNode(NamedTuple):
    """A node by its configuration file."""

    config: Path
    node_id: str
    log_dirs: tuple[Path, ...]
    metrics: str
    """`host:port`, or ""."""

    @property
    def folder(self) -> str:
        """The node's folder in the bundle."""
        return f"nodes/{self.node_id}"


def local_node(config: Path) -> LocalNode:
    """ConfigError where the file cannot be read. A file that a node would refuse is taken as far as it goes."""
    if config.exists() and not config.is_file() and not config.is_dir():  # a pipe would be waited for without end
        raise ConfigError(f"--config {config}: is no file")
    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"--config {config}: {error.strerror}") from error
    try:
        values = _flat(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        values = {}
    node_id = "".join(letter for letter in str(values.get("node.id", "")) if letter.isdigit()) or config.stem
    given = values.get("log.dirs", "")
    listed = given if isinstance(given, list) else str(given).split(",")
    dirs = tuple(Path(text) for one in listed if (text := str(one).strip()))
    return LocalNode(config, node_id, dirs, str(values.get("metrics.listener", "")))


def _flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found


def process_of(node: LocalNode) -> int | None:
    """The process that holds the node's first log dir; None where there is none, or it cannot be seen."""
    for log_dir in node.log_dirs:
        lock = log_dir / LOCK
        try:
            inode, held = lock.stat().st_ino, Path("/proc/locks").read_text(encoding="ascii")
        except OSError:
            continue
        for words in map(str.split, held.splitlines()):
            if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{inode}") and words[4].isdigit():
                pid = int(words[4])
                if _has_open(pid, lock):
                    return pid
    return None


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(one.exists() and one.samefile(path) for one in list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return False


def process_text(pid: int) -> str:
    """The kernel's figures of a process, its descriptors, and its threads with their states and processor time."""
    root = Path(f"/proc/{pid}")
    lines = []
    for name in OF_PROCESS:
        lines += [f"== {name}", _read(root / name).replace("\0", " ").rstrip()]
    lines.append("== descriptors\n" + "\n".join(sorted(_descriptors(root))))
    lines.append("== threads: id, name, state, waits in, ticks of user and kernel")
    for task in sorted((root / "task").glob("*"), key=lambda one: int(one.name)):
        name, _, rest = _read(task / "stat").partition("(")[2].rpartition(")")
        words = rest.split()
        if len(words) > 13:
            lines.append("\t".join((task.name, name, words[0], _read(task / "wchan"), words[11], words[12])))
    return "\n".join(lines) + "\n"


def _descriptors(root: Path) -> Iterator[str]:
    for one in sorted((root / "fd").glob("*")):
        try:
            yield f"{one.name}\t{os.readlink(one)}"
        except OSError:
            continue


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"({error.strerror})"


def ask_for_stacks(pid: int, pause: Callable[[float], object]) -> bool:
    """True if the process was asked to write its threads' stacks into its log, STACKS times; False if it would end, or
    may not be asked."""
    bit = 1 << (signal.SIGQUIT - 1)
    caught = [line.split()[1] for line in _read(Path(f"/proc/{pid}/status")).splitlines() if line.startswith("SigCgt:")]
    if not caught or not int(caught[0], 16) & bit:
        return False
    for _ in range(STACKS):
        try:
            os.kill(pid, signal.SIGQUIT)
        except OSError:
            return False
        pause(STACK_PAUSE_S)
    return True


def files_text(node: LocalNode) -> str:
    """The files of the log dirs: bytes, ms since 1970 of the last change, and path; with what is free on each disk."""
    lines = []
    for log_dir in node.log_dirs:
        try:
            disk = os.statvfs(log_dir)
        except OSError as error:
            lines.append(f"== {log_dir}: {error.strerror}")
            continue
        lines.append(f"== {log_dir}: {disk.f_bavail * disk.f_frsize} of {disk.f_blocks * disk.f_frsize} bytes free")
        for folder, folders, names in os.walk(log_dir):
            folders.sort()
            for name in sorted(names):
                lines += _file_line(Path(folder) / name, log_dir)
            if len(lines) > FILES_LISTED_MAX:
                lines.append("(more files are not listed)")
                return "\n".join(lines) + "\n"
    return "\n".join(lines) + "\n"


def _file_line(path: Path, log_dir: Path) -> list[str]:
    try:
        found = path.lstat()
    except OSError:
        return []
    return [f"{found.st_size}\t{found.st_mtime_ns // 1_000_000}\t{path.relative_to(log_dir)}"]


def metrics_page(address: str) -> str:
    """The metrics page of a node; OSError or ValueError where it is not there. No secret is sent, so the certificate of
    an https page is not checked."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    try:
        return _page(f"http://{address}/metrics", None)
    except OSError:
        return _page(f"https://{address}/metrics", unchecked)


def _page(url: str, context: ssl.SSLContext | None) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(url, timeout=READ_S) as answer:
        return bytes(answer.read()).decode("utf-8", "replace")


def journal_text(node: LocalNode) -> str:
    """The newest lines of the node; OSError without a journal. The unit of NAME.toml is penstock@NAME; that of a node
    of a host (ID/node.toml, docs/host.md) is penstock-host, and the node's lines begin with its name."""
    command = ("journalctl", "--no-pager", "--quiet", "--output", "short-iso-precise", "--lines", str(JOURNAL_LINES))
    of_host = ("--unit", "penstock-host", "--grep", f"^node {node.node_id}:")
    is_of_host = node.config.name == "node.toml" and node.config.absolute().parent.name == node.node_id
    unit = of_host if is_of_host else ("--unit", f"penstock@{node.config.stem}")
    try:
        done = subprocess.run((*command, *unit), capture_output=True, timeout=READ_S * 3, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"journalctl did not end within {READ_S * 3:.0f} s") from error
    if done.returncode or not done.stdout:
        raise OSError(done.stderr.decode("utf-8", "replace").strip() or "the journal has no line of this unit")
    return done.stdout.decode("utf-8", "replace")
