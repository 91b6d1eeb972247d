"""Promises about a server of Spark Connect without Penstock, which gets it as an artifact from its client.

The server itself is the night's: its JVM takes 40 s of a processor.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pandas")
pytest.importorskip("grpc_status")

from penstock.spark.session import prepare_environment
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic
from tests.support.connect_client import MISTAKE, ask

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # a Spark of its own: 140 s on a busy machine

ROOT = Path(__file__).parents[3]


class Session:
    """The two calls of the page's code; `dataSource` is the session itself."""

    def __init__(self) -> None:
        self.dataSource = self
        self.sent: list[tuple[str, bool]] = []
        self.registered: list[Any] = []

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:
        self.sent.append((path, pyfile))

    def register(self, source: Any) -> None:
        self.registered.append(source)


USES_IT = """
import sys
sys.path.insert(0, "penstock.zip")
import penstock.spark.batch_reader, penstock.spark.stream_reader, penstock.spark.writing
print(penstock.__file__, penstock.spark.PenstockDataSource.name())
"""


def test_the_archive_of_the_page_is_all_that_a_server_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session()
    exec(code_of_the_page(), {"spark": session})
    assert session.sent == [("penstock.zip", True)] and [source.name() for source in session.registered] == ["penstock"]
    python = str(python_without_penstock(tmp_path))
    without = subprocess.run([python, "-c", "import penstock"], capture_output=True, text=True, check=False)
    assert without.stderr.endswith("ModuleNotFoundError: No module named 'penstock'\n")
    used = subprocess.run([python, "-c", USES_IT], capture_output=True, text=True, check=False)
    assert used.stdout.split() == ["penstock.zip/penstock/__init__.py", "penstock"], used.stderr


@pytest.mark.long
def test_a_server_without_penstock_gets_it_as_an_artifact(
    cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    prepare_environment()
    python = str(python_without_penstock(tmp_path))
    pythons = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    answer = ask("local[1]", cluster.bootstrap, fill_topic([b"0", b"1"]), tmp_path, code_of_the_page(), **pythons)
    assert answer["before"] == "DATA_SOURCE_NOT_FOUND"
    assert answer["read"] == [0, 1, 10, 11, 12]
    assert answer["mistake"].endswith(MISTAKE)
    # Spark 4.3 gives artifacts to none of a stream's processes; docs/spark.md says so
    assert "No module named 'penstock" in answer["stream_error"]


def code_of_the_page() -> str:
    """The first Python block of the page's section."""
    section = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8").split("## Spark Connect\n")[1]
    return section.split("```python\n")[1].split("```")[0]


def python_without_penstock(place: Path) -> Path:
    """A command that runs this Python with all installed packages but Penstock."""
    packages = place / "packages"
    packages.mkdir()
    installed = [entry for place in map(Path, sys.path) if place.name == "site-packages" for entry in place.iterdir()]
    for entry in installed:
        if "penstock" not in entry.name and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    command = place / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" -S "$@"\n')
    command.chmod(0o755)
    return command
