"""Promises about Spark Connect: the server has Penstock installed, or gets it as an artifact.

Needs pyspark's own requirements for Connect, which come with the extra `dev`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pandas")
pytest.importorskip("grpc_status")

from penstock.spark.session import prepare_environment
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # a Spark of its own each: 140 s on a busy machine

ROOT = Path(__file__).parents[3]
MISTAKE = "no option 'subscrib'; did you mean 'subscribe'?"


def connect(cluster: Cluster, topic: str, place: Path, code: str = "", **environment: str) -> dict[str, Any]:
    """Runs the program of tests/support/connect_client.py; its answer."""
    prepare_environment()
    command = [sys.executable, "-m", "tests.support.connect_client", cluster.bootstrap, topic, str(place)]
    # SPARK_TESTING: the server takes a free port
    known = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_TESTING": "1", **environment}
    told = subprocess.run(
        [*command, *filter(None, [code])], cwd=place, env=known, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    answer: dict[str, Any] = json.loads(told.stdout)
    assert answer["session"] == "pyspark.sql.connect.session"
    return answer


def test_a_server_that_has_penstock_needs_nothing(cluster: Cluster, fill_topic: FillTopic, tmp_path: Path) -> None:
    told = connect(cluster, fill_topic([b"0", b"1"]), tmp_path)
    assert (told["read"], told["streamed"]) == ([0, 1, 10, 11, 12], 5)
    assert told["mistake"].endswith(MISTAKE)
    # the micro-batch was repeated, and its total (of what the topic had) is there once; the next one has it, too
    assert (told["totals"], told["after"]) == ([0, 1], [0, 1, 10, 11, 12, 1005, 1006])


def test_a_server_without_penstock_gets_it_as_an_artifact(
    cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    python = str(python_without_penstock(tmp_path))
    pythons = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    told = connect(cluster, fill_topic([b"0", b"1"]), tmp_path, code_of_the_page(), **pythons)
    assert told["before"] == "DATA_SOURCE_NOT_FOUND"
    assert told["read"] == [0, 1, 10, 11, 12]
    assert told["mistake"].endswith(MISTAKE)
    # Spark 4.3 gives artifacts to none of a stream's processes; docs/spark.md says so
    assert "No module named 'penstock" in told["stream_error"]


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
