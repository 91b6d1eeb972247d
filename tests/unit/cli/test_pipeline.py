"""Promises about `penstock pipeline`: it lists jobs and keys without Spark, and tells a mistake in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.pipeline import describe, list_jobs


def test_jobs_and_keys_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    list_jobs(as_json=True)
    jobs = json.loads(capsys.readouterr().out)
    assert {"bronze", "clicks"} <= {job["job"] for job in jobs} and all(job["summary"] for job in jobs)
    describe("bronze", as_json=True)
    keys = {key["key"]: key for key in json.loads(capsys.readouterr().out)}
    assert keys["topic"]["default"] is None and keys["partition_by"]["default"] == "date"
    assert keys["run.every"]["default"] == "0 s"


def test_a_mistake_in_a_conf_is_one_line(tmp_path: Path) -> None:
    conf = tmp_path / "job.toml"
    conf.write_text('bootstrap = "127.0.0.1:1"\ntopc = "t"\n')
    code = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", code, "pipeline", "run", "bronze", "--conf", str(conf)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == f"penstock: {conf}: topc: the job bronze has no such key; did you mean 'topic'?\n"
