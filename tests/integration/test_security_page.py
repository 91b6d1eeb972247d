"""docs/security.md, followed literally: its commands run in their order in one shell, its program beside them.

The section of one flag begins in an empty directory, and so do that of a cluster that has data, and the rest.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.testing.ports import free_ports
from tests.support.python_nursery import quick_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
PATIENCE_S = 120
ONE_FLAG, HAS_DATA = "## One flag\n", "## A cluster that has data\n"
STARTED = re.compile(r"^penstock node start --config \S+ &$", re.MULTILINE)
LISTENS = 'starts=$((starts + 1)); until [ "$(grep -c "node 1 is ready" said)" = $starts ]; do sleep 0.1; done'
"""A person waits for the node's line of being ready, each time."""


@dataclass
class Followed:
    """The end of the commands of the page: what they said, and the directory with their files."""

    directory: Path
    exit_code: int
    said: str


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    text = PAGE.read_text(encoding="utf-8")
    for title in (ONE_FLAG, HAS_DATA):
        text = text.replace(section(title), "")
    yield from follow(tmp_path_factory.mktemp("security"), text)


@pytest.fixture(scope="module")
def one_flag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    yield from follow(tmp_path_factory.mktemp("one-flag"), section(ONE_FLAG))


@pytest.fixture(scope="module")
def has_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    yield from follow(tmp_path_factory.mktemp("has-data"), section(HAS_DATA))


def section(title: str) -> str:
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(title)
    return found + rest[: rest.index("\n## ")]


def follow(directory: Path, text: str) -> Iterator[Followed]:
    text = with_free_ports(text)
    for name, block in re.findall(r"```(?:toml|python)\n# ([\w.]+)\n(.*?)```", text, re.DOTALL):
        (directory / name).write_text(block, encoding="utf-8")
    commands = directory / "bin"
    commands.mkdir()
    call = '-c "from penstock.cli.main import main; main()" "$@"'
    node = f'case "$*" in "node start"*) exec {sys.executable} -P {call} ;; esac'  # it is killed with the shell
    of_penstock = f"{node}\nexec {quick_python()} {call}"
    for name, program in (("penstock", of_penstock), ("python", f'exec {sys.executable} "$@"')):
        (commands / name).write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
        (commands / name).chmod(0o755)
    script = "\n".join(["set -e", *re.findall(r"```sh\n(.*?)```", text, re.DOTALL), "echo followed to its end"])
    script = STARTED.sub(lambda found: f"{found[0]}\n{LISTENS}", script)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    variables["PATH"] = f"{commands}:{variables['PATH']}"
    with (directory / "said").open("wb") as said:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=directory,
            env=variables,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        exit_code = shell.wait(PATIENCE_S)
        yield Followed(directory, exit_code, (directory / "said").read_text(encoding="utf-8"))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # the page's node


def with_free_ports(text: str) -> str:
    (ports,) = free_ports(1)
    chosen = {9192: ports.broker, 9092: ports.kafka, 9193: ports.controller, 9194: ports.internal, 9404: ports.metrics}
    return re.sub(r"(?<=127\.0\.0\.1:)\d{4}", lambda found: str(chosen[int(found[0])]), text)


def test_the_page_is_followed_to_its_end(followed: Followed) -> None:
    assert followed.exit_code == 0, followed.said
    assert "followed to its end" in followed.said
    assert "b'one more'" in followed.said, "the program read what it had written"
    assert followed.said.count("\none more\n") == 1, "bill has read it by a token"
    assert "allow User:team from every host: All on topic prefix 'team-'" in followed.said
    assert "TOPIC_AUTHORIZATION_FAILED: User:shop may not Delete on topic 'orders'" in followed.said


def test_nobody_but_the_owner_can_read_a_secret(followed: Followed) -> None:
    for name in ("admin.password", "shop.password", "certs/ca.key", "certs/node-1.pem", "issuer.key", "bill.token"):
        assert stat.S_IMODE((followed.directory / name).stat().st_mode) == 0o600, name


def test_no_password_is_in_anything_that_was_said(followed: Followed) -> None:
    for name in ("admin.password", "shop.password", "bill.token"):
        assert (followed.directory / name).read_text(encoding="utf-8").strip() not in followed.said


def test_one_flag_secures_a_node(one_flag: Followed) -> None:
    assert one_flag.exit_code == 0, one_flag.said
    assert "followed to its end" in one_flag.said
    certs = one_flag.directory / "penstock-certs"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in certs.iterdir()}
    assert {name for name, mode in modes.items() if mode != 0o600} == {"ca.pem"}
    assert (certs / "admin.password").read_text(encoding="utf-8").strip() not in one_flag.said


def test_a_cluster_that_has_data_is_secured_and_keeps_it(has_data: Followed) -> None:
    assert has_data.exit_code == 0, has_data.said
    assert has_data.said.index("\nbefore\n") < has_data.said.index("\nafter\n")
