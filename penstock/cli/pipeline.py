"""`penstock pipeline`: runs the Spark jobs that ship, each from a conf file; lists them and their keys.

Exit codes besides those of every command: 3, records are gone that should have been read; 4, an
audit has findings; 5, a watermark has dropped rows. A stop by SIGTERM or Ctrl-C lets the running
micro-batch end and is no failure; a second signal ends the job at once.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.edge.run import TRACEBACK_VARIABLE, failure_of, tell
from penstock.cli.options import AsJson
from penstock.cli.output import note, print_fields, print_json, print_table, say
from penstock.errors import PenstockError

EXIT_DATA_LOSS = 3
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

app = typer.Typer(help="Run the Spark jobs that ship with Penstock.", no_args_is_help=True)
JobName = Annotated[str, typer.Argument(metavar="JOB", help="One of `penstock pipeline list`.")]


@app.command("list")
def list_jobs(as_json: AsJson = False) -> None:
    """The jobs and what each does."""
    from penstock.pipelines.catalog import JOBS

    if as_json:
        print_json([{"job": job.name, "summary": job.summary} for job in JOBS.values()])
    else:
        print_table(("job", "what it does"), [(job.name, job.summary) for job in JOBS.values()])


@app.command()
def describe(job: JobName, as_json: AsJson = False) -> None:
    """The keys of a job's conf file."""
    from penstock.pipelines.catalog import describe_job

    own, run = describe_job(job)
    rows = [(key.name, key) for key in own] + [(f"run.{key.name}", key) for key in run]
    if as_json:
        names = ("type", "default", "meaning")
        print_json([dict(zip(("key", *names), (n, k.kind, k.default, k.meaning), strict=True)) for n, k in rows])
        return
    print_table(
        ("key", "default", "type", "meaning"),
        [(name, "(needed)" if key.default is None else key.default, key.kind, key.meaning) for name, key in rows],
    )


@app.command()
def run(
    job: JobName,
    conf: Annotated[Path, typer.Option("--conf", metavar="FILE", help="The job's keys, as TOML.")],
    as_json: AsJson = False,
) -> None:
    """Run a job. SIGTERM or Ctrl-C lets the micro-batch under way end; a second one ends the job at once."""
    from penstock.pipelines.catalog import run_job
    from penstock.spark.planning import DataLossError

    stop = threading.Event()

    def ask_to_stop(*_: object) -> None:
        stop.set()
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def catch_signals() -> None:
        if not stop.is_set():
            for number in STOP_SIGNALS:
                signal.signal(number, ask_to_stop)

    try:
        result = run_job(job, conf, stop=stop, say=note, catch_signals=catch_signals)
    except DataLossError as error:
        failure = failure_of(error)._replace(name="data loss", exit_code=EXIT_DATA_LOSS)
        raise typer.Exit(tell(failure)) from None
    except PenstockError as error:
        if type(error) is PenstockError:  # Spark's own, of which the first line is told
            error.add_note(f"{TRACEBACK_VARIABLE}=1 shows the whole stack")
        raise
    exit_code = int(result.pop("exit_code", 0))
    if as_json:
        print_json(result)
    else:
        _print(result)
    raise typer.Exit(exit_code)


def _print(result: dict[str, Any]) -> None:
    """Fields, and a list of an audit's findings, one a line."""
    findings = result.pop("findings", None)
    print_fields({name: _plain(value) for name, value in result.items() if value is not None})
    for finding in findings or ():
        say(finding["sentence"])
    if findings == []:
        say("no finding" if result["segments"] else "nothing was verified: no partition has a closed segment")


def _plain(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if type(value) is int else value
