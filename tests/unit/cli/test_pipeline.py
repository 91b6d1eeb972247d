"""Promises about `penstock pipeline`: it lists jobs and keys without Spark, and tells a mistake in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from penstock.cli.pipeline import describe, list_jobs, run
from penstock.pipelines import catalog
from penstock.pipelines.frame.plain_error import plain_error

CODE = "from penstock.cli.main import main; main()"


def test_jobs_and_keys_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    list_jobs(as_json=True)
    jobs = json.loads(capsys.readouterr().out)
    assert {"bronze", "audit"} <= {job["job"] for job in jobs} and all(job["summary"] for job in jobs)
    describe("bronze", as_json=True)
    keys = {key["key"]: key for key in json.loads(capsys.readouterr().out)}
    assert keys["topic"]["default"] is None and keys["partition_by"]["default"] == "date"
    assert keys["run.every"]["default"] == "0 s"


def test_a_mistake_in_a_conf_is_one_line(tmp_path: Path) -> None:
    conf = tmp_path / "job.toml"
    conf.write_text('bootstrap = "127.0.0.1:1"\ntopc = "t"\n')
    command = [sys.executable, "-c", CODE, "pipeline", "run", "bronze", "--conf", str(conf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"penstock: {conf}: topc: the job bronze has no such key; did you mean 'topic'?\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_data_loss_is_told_like_any_other_error_with_a_code_of_its_own_and_the_key_of_the_conf(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise plain_error(
            "penstock.spark.planning.DataLossError: t-0: offsets [2, 5) were deleted. Nothing was skipped: the query "
            "stops here. To go on without these records set the option failOnDataLoss=false"
        )

    monkeypatch.setattr(catalog, "run_job", lose)
    monkeypatch.setattr(sys, "argv", ["penstock", "pipeline", "run", "bronze", *(["--json"] if as_json else [])])
    with pytest.raises(typer.Exit) as ended:
        run("bronze", Path("bronze.toml"), as_json=as_json)
    printed = capsys.readouterr()
    assert (ended.value.exit_code, printed.out) == (3, "")
    sentence = (
        "t-0: offsets [2, 5) were deleted. Nothing was skipped: the query stops here. "
        "To go on without these records set fail_on_data_loss = false"
    )
    if as_json:
        assert json.loads(printed.err) == {"error": {"name": "DataLossError", "message": sentence, "exit_code": 3}}
    else:
        assert printed.err == f"penstock: data loss: {sentence}\n"


def test_an_audit_without_a_closed_segment_says_that_nothing_was_verified(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    conf = tmp_path / "audit.toml"
    conf.write_text(f'log_dirs = ["{tmp_path}"]\n')
    command = [sys.executable, "-c", CODE, "pipeline", "run", "audit", "--conf", str(conf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.endswith("\nnothing was verified: no partition has a closed segment\n")


JOB_WITHOUT_SPARK = """
import sys, time, types
from dataclasses import dataclass
from penstock.cli.main import main
from penstock.pipelines import catalog

@dataclass(frozen=True, slots=True, kw_only=True)
class Conf: pass

def run(conf, context):
    context.say("running")
    while not context.stop.is_set():
        time.sleep(0.01)
    return {"stopped": True}

sys.modules[f"{catalog.ROOM}.waits"] = types.SimpleNamespace(Conf=Conf, check_waits=lambda *_: None, run_waits=run)
catalog.JOBS["waits"] = catalog.Job("waits", "waits", "Conf", "waits for a stop")
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_without_spark_at_once_and_with_its_result(tmp_path: Path, number: signal.Signals) -> None:
    conf = tmp_path / "waits.toml"
    conf.write_text("")
    command = [sys.executable, "-c", JOB_WITHOUT_SPARK, "pipeline", "run", "waits", "--conf", str(conf), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "running\n"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert json.loads(stdout)["stopped"] is True
