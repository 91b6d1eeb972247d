"""The build of the image: which bases, with one time for everything, and without a look at a registry."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ops.container import base
from ops.container.image import EPOCH, FINAL_BASE, FOLDER, NAME, Builder

LAYERS = [{"size": 5}, {"size": 7}]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run, each of which succeeds."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        manifest = json.dumps({"layers": LAYERS})
        shown = json.dumps({"FromImageDigest": "sha256:00", "Manifest": manifest})
        return subprocess.CompletedProcess(command, 0, shown if "inspect" in command else "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(base, "make", lambda target, **_: target.write_bytes(b""))
    return ran


def test_an_image_is_built_on_the_bases_of_this_machine_with_one_time(
    commands: list[list[str]], tmp_path: Path
) -> None:
    assert Builder(("--root", "/r")).image(tmp_path, "9.9") == "sha256:00"
    build = commands[0]
    assert build[:4] == ["buildah", "--root", "/r", "bud"] and "--pull-never" in build
    assert build[build.index("--timestamp") + 1] == str(EPOCH) and build[build.index("--format") + 1] == "oci"
    assert f"BASE={FINAL_BASE}" in build and build[build.index("--tag") + 1] == f"{NAME}:9.9"
    assert "PIP_OPTIONS=--no-index --find-links /wheels" in build


def test_without_a_folder_of_wheels_pip_asks_its_index(commands: list[list[str]]) -> None:
    Builder().image(None, "9.9")
    assert not [part for part in commands[0] if "PIP_OPTIONS" in part]


def test_the_archive_of_a_base_is_not_kept(commands: list[list[str]], tmp_path: Path) -> None:
    assert Builder().base(tmp_path, is_final=True) == "sha256:00"
    assert list(tmp_path.iterdir()) == [] and "ARCHIVE=base.tar" in commands[0]


def test_the_size_is_that_of_the_layers(commands: list[list[str]]) -> None:
    assert Builder().size(NAME) == 12


def test_both_stages_have_one_default_base_and_the_last_one_runs_as_no_root() -> None:
    lines = (FOLDER / "Containerfile").read_text(encoding="utf-8").splitlines()
    defaults = {line.partition("=")[2] for line in lines if line.startswith(("ARG BASE", "ARG BUILD_BASE"))}
    assert len(defaults) == 1
    last = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM")) :]
    assert "USER 10001:10001" in last and not [line for line in last if line.startswith("RUN")]
    assert 'ENTRYPOINT ["/opt/penstock/bin/penstock"]' in last
