"""The clients: how each gets here, and the command that runs its driver."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
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


def _node(package: str, program: str) -> Callable[[], Command]:
    """A program of the folder js, beside the packages that its package.json names; they bring their own node."""

    def command() -> Command:
        folder = _cache("js")
        wanted = (DRIVERS / "js" / "package.json").read_text()
        installed = folder / "package.json"
        if not (folder / "node_modules").is_dir() or installed.read_text() != wanted:
            installed.write_text(wanted)
            npm = [_tool("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock"]
            _run(npm, folder, f"{package} was not installed")
        for source in (DRIVERS / "js").glob("*.js"):
            shutil.copy(source, folder)
        node = folder / "node_modules" / "node" / "bin" / "node"
        words = [str(node) if node.is_file() else _tool("node"), str(folder / program)]
        return Command(words, json.loads(wanted)["dependencies"][package])

    return command


def java_jars() -> tuple[str, Path, str]:
    """java itself, the folder of the jars that the pom names, and Kafka's version."""
    pom = DRIVERS / "java" / "pom.xml"
    found = re.search(r"<kafka.version>(.*)</kafka.version>", pom.read_text())
    folder = _cache("java")
    done = folder / "pom.xml"
    if not done.is_file() or done.read_text() != pom.read_text():
        words = [
            _tool("mvn"),
            "-q",
            "-B",
            "-f",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ]
        _run(words, folder, "Kafka's jars were not fetched")
        shutil.copy(pom, done)
    return _tool("java"), folder, found[1] if found else "?"


def _java_client() -> Command:
    java, jars, version = java_jars()
    sources = [str(source) for source in sorted((DRIVERS / "java").glob("*.java"))]
    _run([_tool("javac"), "-cp", f"{jars}/*", "-d", str(jars), *sources], jars, "the driver was not compiled")
    return Command([java, "-Xmx256M", "-cp", f"{jars}:{jars}/*", "Driver"], version)


def _java_tools() -> Command:
    _, jars, version = java_jars()
    return Command([sys.executable, "-m", "tests.interop.drivers.java_tools", f"{jars}/*"], version)


CLIENTS: dict[str, Callable[[], Command]] = {
    "confluent-kafka": _python("confluent-kafka", "confluent"),
    "kafka-python": _python("kafka-python", "kafka_python"),
    "aiokafka": _python("aiokafka", "aiokafka_driver"),
    "kcat": _kcat,
    "franz-go": _go("github.com/twmb/franz-go", "franz"),
    "sarama": _go("github.com/IBM/sarama", "sarama"),
    "kafkajs": _node("kafkajs", "kafkajs.js"),
    "platformatic": _node("@platformatic/kafka", "platformatic.js"),
    "java": _java_client,
    "java-tools": _java_tools,
}
WITH_LOGIN = ("confluent-kafka", "kafka-python", "aiokafka", "kcat", "java", "java-tools")
"""Whose drivers can log in (tests/interop/drivers/login.py)."""
REFERENCE = "confluent-kafka"
