"""Promises about a server of Spark Connect that has Penstock installed: its clients need nothing.

Needs pyspark's own requirements for Connect, which come with the extra `dev`. test_connect_artifacts.py is about a
server without Penstock.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("grpc_status")

from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic
from tests.support.connect_client import MISTAKE, ask

pytestmark = pytest.mark.spark


def test_a_server_that_has_penstock_needs_nothing(
    connect_url: str, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    answer = ask(connect_url, cluster.bootstrap, fill_topic([b"0", b"1"]), tmp_path)
    assert (answer["read"], answer["streamed"]) == ([0, 1, 10, 11, 12], 5)
    assert answer["mistake"].endswith(MISTAKE)
    # the micro-batch was repeated, and its total (of what the topic had) is there once; the next one has it, too
    assert (answer["totals"], answer["after"]) == ([0, 1], [0, 1, 10, 11, 12, 1005, 1006])
