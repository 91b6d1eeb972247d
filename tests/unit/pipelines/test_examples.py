"""Promises about `examples/pipelines`: each script is one file for an installed Penstock, and sends all it says."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from examples.pipelines import clicks
from penstock.client.admin.admin import Admin
from penstock.types import LATEST_TIMESTAMP, TopicPartition
from tests.support.fake_broker import FakeCluster

SCRIPTS = sorted(Path(clicks.__file__).parent.glob("*.py"))
PUBLIC = {"penstock", "penstock.errors"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_needs_no_more_than_the_public_names_of_an_installed_penstock(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    here = {"penstock", "raft", "metadata", "storage", "broker", "examples", "tests"}
    assert {name for name in imported if name.split(".")[0] in here} <= PUBLIC


def test_clicks_sends_every_record_and_writes_the_answers(tmp_path: Path) -> None:
    answers, place = tmp_path / "answers.json", TopicPartition("clicks", 0)
    with FakeCluster() as fake, Admin(fake.bootstrap) as admin:
        fake.create_topic("clicks")
        sent = clicks.main([f"--bootstrap={fake.bootstrap}", "--events=700", f"--answers={answers}"])
        assert admin.list_offsets({place: LATEST_TIMESTAMP})[place].offset == sent["records"] > 700
    assert json.loads(answers.read_text())["records"] == sent["records"]
