"""Promises about a server of Spark Connect without Penstock, which gets it as an artifact from its client."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("grpc_status")

from penstock.spark.session import prepare_environment
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic
from tests.support.connect_client import MISTAKE, ask

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # a Spark of its own: 140 s on a busy machine

ROOT = Path(__file__).parents[3]


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
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "penstock" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    command = place / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" -S "$@"\n')
    command.chmod(0o755)
    return command
