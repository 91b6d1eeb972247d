"""Hostile arguments and streams for every command: python -m tests.fuzz_cli [--only WORD …] [--seed N] [--quick].

Walks the tree of commands as typer has it. Each option and argument gets each of VALUES, in a command line that is
good otherwise, against a cluster of one node; and each command runs with each of STREAMS closed or full. A case fails
when a traceback or an error that nobody expected is printed, when the exit code is not a documented one, or when the
command does not end in time; one that runs until it is told to stop gets a SIGINT first. The last line is a count, and
the exit code is 1 after a failed case. The default suite runs a part of it (tests/integration/test_fuzz_cli.py).

Cases run in this process where they can (`tests.support.command_line`). A command that becomes another process, or
starts some, and each case with a stream, has a process of its own: some 4,000 cases in half an hour on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from penstock.cli.main import app
from penstock.testing import Cluster
from tests.support.command_line import penstock

TOPIC = "fuzzed"
VALUES: Mapping[str, str] = {
    "empty": "",
    "2**31": "2147483648",
    "2**63": "9223372036854775808",
    "huge": "9" * 5000,
    "-1": "-1",
    "-huge": "-" + "9" * 40,
    "a fraction": "1e309",
    "other digits": "٣",
    "not UTF-8": os.fsdecode(b"\xff\xfe"),
    "not UTF-8 after =": os.fsdecode(b"a-0=\xff"),
    "NUL": "a\0b",
    "an emoji": "\U0001f600",
    "a line end": "a\nb",
    "long": "x" * 60_000,
}
STREAMS: Mapping[str, str] = {
    "stdin closed": "<&-",
    "stdout closed": ">&-",
    "stderr closed": "2>&-",
    "all closed": "<&- >&- 2>&-",
    "stdout full": ">/dev/full",
    "stderr full": "2>/dev/full",
    "both full": ">/dev/full 2>/dev/full",
}
EXIT_CODES = frozenset({0, 1, 2, 3, 4, 130})
"""The exit codes in docs/command-line.md."""
SIGNS = ("Traceback (most recent call last)", "this is a bug of Penstock", "Exception ignored in", "Fatal Python error")
IN_TIME_S = 90
"""More than the longest wait of a client, 60 s for an answer of the cluster."""
RUNS_ON_S = 8
"""After this a command that runs until it is told to stop gets a SIGINT."""
OWN_PROCESS = (("node",), ("dev",), ("demo",), ("pipeline", "run"), ("log",), ("metadata",), ("certs",))
"""They become another process or start one; Spark's cannot run twice in one; certs writes files where it is."""
RUN_ON = (("dev",), ("demo",), ("consume",), ("node", "start"))


@dataclass(frozen=True, slots=True)
class Case:
    """One command line."""

    path: tuple[str, ...]
    what: str
    arguments: tuple[str, ...]
    streams: str = ""

    def __str__(self) -> str:
        return f"{' '.join(self.path)}: {self.what}"

    def begins_with(self, prefixes: Sequence[tuple[str, ...]]) -> bool:
        return any(self.path[: len(prefix)] == prefix for prefix in prefixes)


@dataclass(frozen=True, slots=True)
class Place:
    """The names that good command lines use: a cluster with a topic, and files."""

    bootstrap: str
    directory: Path
    config: Path

    def good(self, path: tuple[str, ...]) -> list[str]:
        """Arguments with which the command does little."""
        words: dict[tuple[str, ...], list[str]] = {
            ("topics", "create"): [TOPIC],
            ("topics", "alter"): [TOPIC, "-p", "2", "--dry-run"],
            ("topics", "describe"): [TOPIC],
            ("topics", "offsets"): [TOPIC],
            ("topics", "delete"): ["no-such-topic"],
            ("topics", "delete-records"): [TOPIC, "-p", "0", "--before-offset", "0"],
            ("reassignments", "start"): [f"{TOPIC}-0=0"],
            ("reassignments", "cancel"): [TOPIC],
            ("log-dirs", "move"): [f"{TOPIC}-0={self.directory}", "--broker", "0"],
            ("configs", "describe"): [TOPIC],
            ("configs", "describe-broker"): ["0"],
            ("configs", "alter"): [TOPIC, "--set", "retention.ms=1000", "--validate-only"],
            ("cluster", "balance"): ["--dry-run"],
            ("brokers", "drain"): ["0", "--dry-run"],
            ("brokers", "cordon"): ["77"],
            ("brokers", "uncordon"): ["77"],
            ("brokers", "unregister"): ["77"],
            ("brokers", "wait"): ["0", "--timeout", "0"],
            ("apply",): [str(self.directory / "none.toml")],
            ("export",): ["--kind", "quotas"],
            ("elect-leaders",): [TOPIC],
            ("produce",): [TOPIC],
            ("consume",): [TOPIC, "--exit-at-end", "--from-beginning"],
            ("bench", "produce"): [TOPIC, "-n", "10"],
            ("bench", "consume"): [TOPIC, "-n", "1"],
            ("log", "dump"): [str(self.directory)],
            ("log", "verify"): [str(self.directory)],
            ("log", "recover"): [str(self.directory), "--dry-run"],
            ("pipeline", "describe"): ["bronze"],
            ("pipeline", "run"): ["bronze", "--conf", str(self.directory / "none.toml")],
            ("dev",): ["--data", str(self.directory / "none" / "\0"), "--port", "1"],
            ("demo",): [str(self.directory / "none"), "--no-spark"],
        }
        if path[0] == "certs":
            of_one = {"node": ["7", "--host", "localhost"], "client": ["anna"]}
            return [*of_one.get(path[1], []), "--dir", str(self.directory / "certs")]
        if path[0] == "node":
            return ["--config", str(self.config)] + (["--dry-run"] if path[1] in ("install", "uninstall") else [])
        return words.get(path, [])


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with its path."""
    group = group or typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def argument_cases(place: Place) -> Iterator[Case]:
    """Each option and argument of each command with each value."""
    for path, command in commands():
        good = place.good(path)
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            if is_option and parameter.is_flag:
                continue
            shown = parameter.opts[-1] if is_option else parameter.name
            for name, value in VALUES.items():
                if path[0] == "bench" and name == "2**31":
                    continue  # so many records are a good argument, and hours of work
                given = _without(good, parameter) if is_option else good[1:] if good[:1] and good[0][0] != "-" else good
                hostile = [f"{shown}={value}"] if is_option else ["--", value]
                yield Case(path, f"{shown} {name}", (*given, *hostile))


def _without(good: list[str], parameter: Any) -> list[str]:
    """The good arguments but for those of one option."""
    left, skip = [], False
    for word in good:
        if not skip and word not in parameter.opts:
            left.append(word)
        skip = word in parameter.opts
    return left


def stream_cases(place: Place) -> Iterator[Case]:
    """Each command, with and without --json, with each state of its standard streams."""
    for path, command in commands():
        forms = [()] + ([("--json",)] if any("--json" in p.opts for p in command.params) else [])
        for form in forms:
            for name, streams in STREAMS.items():
                yield Case(path, " ".join((*form, name)), (*place.good(path), *form), streams)


def run(case: Case, place: Place) -> str:
    """The fault in the command's end; "" if there is none."""
    if case.streams or case.begins_with(OWN_PROCESS) or "consume" in case.path:
        return _run_process(case, place)
    try:
        done = penstock(*case.path, *case.arguments, stdin=b"a\n", bootstrap=place.bootstrap)
    except Exception as error:  # a Ctrl-C ends the whole run
        return f"raised {error!r}"
    return _judged(done.returncode, done.stdout + done.stderr)


def _run_process(case: Case, place: Place) -> str:
    """A shell does to the streams what users do."""
    if any("\0" in word for word in case.arguments):
        return ""  # no operating system passes it on
    program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
    command = [sys.executable, "-c", program, *case.path, *case.arguments]
    shell = ["bash", "-c", f'exec "$@" {case.streams}', "bash", *command]
    environ = {**os.environ, "PENSTOCK_BOOTSTRAP": place.bootstrap}
    process = subprocess.Popen(
        shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ, cwd=place.directory
    )
    with process:
        said, runs_on = b"", case.begins_with(RUN_ON)
        try:
            said, _ = process.communicate(b"a\n", RUNS_ON_S if runs_on else IN_TIME_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT if runs_on else signal.SIGKILL)
            try:
                said, _ = process.communicate(timeout=IN_TIME_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return "does not end after SIGINT"
            if not runs_on:
                return f"has not ended after {IN_TIME_S} s"
    return _judged(process.returncode, said)


def _judged(exit_code: int, said: bytes) -> str:
    text = said.decode("utf-8", "backslashreplace")
    for sign in SIGNS:
        if sign in text:
            return f"{sign}: {text.strip()[-300:]}"
    return "" if exit_code in EXIT_CODES else f"exit code {exit_code}: {text.strip()[-300:]}"


@contextlib.contextmanager
def place_of(cluster: Cluster) -> Iterator[Place]:
    """Files beside a running cluster, which has the topic."""
    cluster.topic(TOPIC)
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-cli-") as directory:
        config = Path(directory) / "bad.toml"
        config.write_text("node.id = 0\n")
        yield Place(cluster.bootstrap, Path(directory), config)


def drawn(place: Place, seed: int, count: int) -> list[Case]:
    """A part of the cases that run in this process: the same for a seed."""
    cases = [c for c in argument_cases(place) if not c.begins_with(OWN_PROCESS) and "consume" not in c.path]
    return random.Random(seed).sample(cases, count)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_cli", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name has one of these words")
    parser.add_argument("--quick", action="store_true", help="300 cases, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    done: list[str] = []
    with Cluster(nodes=1) as cluster, place_of(cluster) as place:
        cases = [*argument_cases(place), *stream_cases(place)]
        if options.quick:
            cases = drawn(place, options.seed, 300)
        cases = [case for case in cases if not options.only or any(word in str(case) for word in options.only)]
        with contextlib.suppress(KeyboardInterrupt):
            for case in cases:
                done.append(_text(case, run(case, place)))
                if len(done) % 100 == 0:
                    sys.stderr.write(f"{len(done)} of {len(cases)}\n")
    wrong = sum(map(bool, done))
    more = f" (of {len(cases)}: interrupted)" if len(done) < len(cases) else ""
    sys.stdout.write(f"{len(done)} cases{more}, tracebacks {wrong}\n")
    return int(wrong > 0)


def _text(case: Case, trouble: str) -> str:
    if trouble:
        sys.stdout.write(f"{case}: {trouble}\n")
        sys.stdout.flush()
    return trouble


if __name__ == "__main__":
    sys.exit(main())
