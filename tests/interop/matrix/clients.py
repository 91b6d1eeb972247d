"""The clients of the matrix: how each gets here, and the command that runs its driver.

A client is asked for by NAME, in the version that the project has pinned, or by NAME@VERSION. Each version is installed
into a folder of its own (installs.py), so that no two of them meet.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.interop.matrix.installs import DRIVERS, Command, MissingError, made, python_with, run, tool

Recipe = Callable[[str | None], Command]
SARAMA = "github.com/IBM/sarama"
SARAMA_BEFORE = "github.com/Shopify/sarama"
"""Its module up to 1.38."""
CODECS = ("python-snappy", "lz4", "zstandard", "cramjam")
"""The packages that versions of Python's clients take for a codec; older ones do not name them as extras."""
QUICK_JAVA = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Compiles once and lightly: a JVM of a few seconds spends most of them on compiling."""
GO_FOLDERS = ("/usr/local/go/bin",)


def _python(package: str, module: str, *beside: str) -> Recipe:
    def command(version: str | None) -> Command:
        if version is not None:
            python = str(python_with(package, version, beside))
            return Command([python, "-m", f"tests.interop.drivers.{module}"], version)
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise MissingError(f"{package} is not installed: pip install '.[dev]'") from None
        return Command([sys.executable, "-m", f"tests.interop.drivers.{module}"], version)

    return command


def _kcat(asked: str | None) -> Command:
    if shutil.which("kcat") is None:
        raise MissingError("kcat is not installed: apt-get install kcat")
    if asked is not None:
        raise MissingError("kcat is the distribution's: ask for it without a version")
    version = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version ([\d.]+).*librdkafka ([\d.]+)", version, re.DOTALL)
    words = [sys.executable, "-m", "tests.interop.drivers.kcat"]
    return Command(words, f"{found[1]} ({found[2]})" if found else "?")


def _go(module: str, program: str) -> Recipe:
    """A program of the folder go, built in a copy of it, with the versions of go.mod or another one of this module."""

    def command(version: str | None) -> Command:
        sources = DRIVERS / "go"
        pinned = re.search(rf"(?m)^\s*{re.escape(module)} v(\S+)", (sources / "go.mod").read_text())
        texts = [path.read_text() for path in sorted(sources.rglob("*")) if path.is_file()]

        def make(folder: Path) -> None:
            go = tool("go", *GO_FOLDERS)
            shutil.copytree(sources, folder / "source")
            if version is not None:
                run([go, *_other_go_version(module, version)], folder / "source", f"{module} {version} was not found")
            build = [go, "build", "-mod=mod", "-o", str(folder / program)]
            _build(build, program, folder / "source", f"{module} {version or ''}")

        name = f"go-{program}" if version is None else f"go-{program}-{version}"
        folder = made(name, "\n".join([version or "pinned", *texts]), make)
        return Command([str(folder / program)], version or (pinned[1] if pinned else "?"))

    return command


def _build(build: list[str], program: str, folder: Path, name: str) -> None:
    """The program, or the one with the tag `older`, whose files leave out what older versions of a module lack."""
    try:
        run([*build, f"./{program}"], folder, f"{name} was not built")
    except MissingError as error:
        try:
            run([*build, "-tags", "older", f"./{program}"], folder, f"{name} was not built")
        except MissingError:
            raise error from None


def _other_go_version(module: str, version: str) -> list[str]:
    if module == SARAMA and tuple(map(int, version.split(".")[:2])) < (1, 40):
        return ["mod", "edit", f"-replace={SARAMA}={SARAMA_BEFORE}@v{version}"]
    return ["get", f"{module}@v{version}"]


def _node(package: str, program: str) -> Recipe:
    """A program of the folder js, beside the packages that its package.json names; they bring their own node."""

    def command(version: str | None) -> Command:
        wanted = json.loads((DRIVERS / "js" / "package.json").read_text())
        if version is not None:
            wanted["dependencies"][package] = version
        recipe = json.dumps(wanted, indent=2)

        def make(folder: Path) -> None:
            (folder / "package.json").write_text(recipe)
            npm = [tool("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", "--fetch-retries=1"]
            run(npm, folder, f"{package} was not installed")

        name = "js" if version is None else f"js-{package.replace('/', '-').lstrip('@')}-{version}"
        folder = made(name, recipe, make)
        for source in (DRIVERS / "js").glob("*.js"):
            shutil.copy(source, folder)
        node = folder / "node_modules" / "node" / "bin" / "node"
        words = [str(node) if node.is_file() else tool("node"), str(folder / program)]
        return Command(words, wanted["dependencies"][package])

    return command


def java_jars(version: str | None = None) -> tuple[str, Path, str]:
    """java itself, the folder of the jars that the pom names, and Kafka's version: the pom's, or the one asked for."""
    pom = DRIVERS / "java" / "pom.xml"
    found = re.search(r"<kafka.version>(.*)</kafka.version>", pom.read_text())
    wanted = version or (found[1] if found else "?")

    def make(folder: Path) -> None:
        words = [tool("mvn"), "-q", "-B", "-f", str(pom), f"-Dkafka.version={wanted}"]
        words += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        run(words, folder, f"the jars of Kafka {wanted} were not fetched")

    folder = made(f"java-{wanted}", f"{wanted}\n{pom.read_text()}", make)
    return tool("java"), folder, wanted


def _java_client(asked: str | None) -> Command:
    java, jars, version = java_jars(asked)
    sources = {source.name: source for source in sorted((DRIVERS / "java").glob("*.java"))}
    if int(version.split(".")[0]) < 4:
        sources |= {source.name: source for source in (DRIVERS / "java" / "older").glob("*.java")}

    def make(folder: Path) -> None:
        words = [tool("javac"), "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources.values())]
        run(words, folder, f"the driver was not compiled with Kafka {version}")

    recipe = "\n".join([version, *(source.read_text() for source in sources.values())])
    classes = made(f"{jars.name}-driver", recipe, make)
    return Command([java, *QUICK_JAVA, "-cp", f"{classes}:{jars}/*", "Driver"], version)


def _java_tools(asked: str | None) -> Command:
    _, jars, version = java_jars(asked)
    return Command([sys.executable, "-m", "tests.interop.drivers.java_tools", f"{jars}/*"], version)


CLIENTS: dict[str, Recipe] = {
    "confluent-kafka": _python("confluent-kafka", "confluent"),
    "kafka-python": _python("kafka-python", "kafka_python", *CODECS),
    "aiokafka": _python("aiokafka", "aiokafka_driver", *CODECS),
    "kcat": _kcat,
    "franz-go": _go("github.com/twmb/franz-go", "franz"),
    "sarama": _go(SARAMA, "sarama"),
    "kafka-go": _go("github.com/segmentio/kafka-go", "segmentio"),
    "kafkajs": _node("kafkajs", "kafkajs.js"),
    "platformatic": _node("@platformatic/kafka", "platformatic.js"),
    "java": _java_client,
    "java-tools": _java_tools,
}
WITH_LOGIN = ("confluent-kafka", "kafka-python", "aiokafka", "kcat", "java", "java-tools")
"""Whose drivers can log in (tests/interop/drivers/login.py)."""
REFERENCE = "confluent-kafka"
VERSIONS = (
    *("confluent-kafka@1.9.2", "confluent-kafka@2.3.0", "confluent-kafka@2.16.1"),
    *("kafka-python@2.0.2", "kafka-python@2.3.3", "kafka-python@3.0.11", "kafka-python@3.0.12"),
    *("aiokafka@0.10.0", "aiokafka@0.12.0", "aiokafka@0.14.0"),
    "kcat",
    *("franz-go@1.17.1", "franz-go"),
    *("sarama@1.38.1", "sarama@1.45.0", "sarama"),
    *("kafka-go@0.4.47", "kafka-go"),
    *("kafkajs@1.16.0", "kafkajs"),
    *("platformatic@1.35.0", "platformatic"),
    *("java@3.9.1", "java"),
    *("java-tools@3.9.1", "java-tools"),
)
"""The versions of the page's table: older ones that many still run, and the newest of each client."""


def name_of(asked: str) -> str:
    """The client of NAME or NAME@VERSION."""
    return asked.partition("@")[0]


def command_of(asked: str) -> Command:
    """Installs what is asked for, NAME or NAME@VERSION, and returns the command of its driver."""
    name, _, version = asked.partition("@")
    return CLIENTS[name](version or None)
