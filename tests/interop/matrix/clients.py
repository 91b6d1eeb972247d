"""The clients: how each gets here, and the command that runs its driver."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DRIVERS = ROOT / "tests" / "interop" / "drivers"
INSTALL_S = 600


class MissingError(Exception):
    """The client cannot be had here; the text says why."""


@dataclass(frozen=True)
class Command:
    """The driver's command line, but for the bootstrap address."""

    words: list[str]
    version: str
    folder: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict)


def _python(package: str, module: str) -> Callable[[], Command]:
    def command() -> Command:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise MissingError(f"{package} is not installed: pip install '.[dev]'") from None
        return Command([sys.executable, "-m", f"tests.interop.drivers.{module}"], version)

    return command


def _kcat() -> Command:
    if shutil.which("kcat") is None:
        raise MissingError("kcat is not installed: apt-get install kcat")
    version = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version ([\d.]+).*librdkafka ([\d.]+)", version, re.DOTALL)
    words = [sys.executable, "-m", "tests.interop.drivers.kcat"]
    return Command(words, f"{found[1]} ({found[2]})" if found else "?")


def _cache(name: str) -> Path:
    """The folder for what this client needs; it outlives the run."""
    folder = Path(os.environ.get("PENSTOCK_INTEROP_CACHE", Path.home() / ".cache" / "penstock-interop")) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run(words: list[str], folder: Path, missing: str) -> None:
    """Installs or builds something; its last line is the reason when that fails."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise MissingError(f"{missing}: {told[-1]}")


def _tool(name: str, *elsewhere: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *elsewhere]))
    if found is None:
        raise MissingError(f"{name} is not installed")
    return found


def _go(module: str, program: str) -> Callable[[], Command]:
    def command() -> Command:
        sources, binaries = DRIVERS / "go", _cache("go")
        words = [_tool("go", "/usr/local/go/bin"), "build", "-o", str(binaries), f"./{program}"]
        _run(words, sources, f"{module} was not built")
        version = re.search(rf"(?m)^\s*{re.escape(module)} v(\S+)$", (sources / "go.mod").read_text())
        return Command([str(binaries / program)], version[1] if version else "?")

    return command


CLIENTS: dict[str, Callable[[], Command]] = {
    "confluent-kafka": _python("confluent-kafka", "confluent"),
    "kafka-python": _python("kafka-python", "kafka_python"),
    "aiokafka": _python("aiokafka", "aiokafka_driver"),
    "kcat": _kcat,
    "franz-go": _go("github.com/twmb/franz-go", "franz"),
    "sarama": _go("github.com/IBM/sarama", "sarama"),
}
REFERENCE = "confluent-kafka"
