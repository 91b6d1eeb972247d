"""The command that runs a member of Java's clients: compiled once into the folder of the interop tests' jars."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.exactly_once.places import BATCH, GROUP, INPUT, OUTPUT
from tests.interop.matrix.clients import java_jars

SOURCE = Path(__file__).with_name("Member.java")


@cache
def _class_path() -> tuple[str, str]:
    """java itself, and where its classes are."""
    java, jars, _ = java_jars()
    subprocess.run([f"{java}c", "-cp", f"{jars}/*", "-d", str(jars), str(SOURCE)], check=True)
    return java, f"{jars}:{jars}/*"


def java_command(name: str, bootstrap: str) -> list[str]:
    """NAME is its transactional id."""
    java, classes = _class_path()
    how = ["-Xmx192M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes]
    return [java, *how, "Member", name, bootstrap, GROUP, INPUT, OUTPUT, str(BATCH)]
