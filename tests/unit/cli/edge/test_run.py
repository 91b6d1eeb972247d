"""Every end of a command becomes one line and an exit code."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer

from penstock.cli.edge.run import failure_of, run_command
from penstock.errors import ConfigError, NotControllerError, PenstockError


def raising(error: BaseException) -> Callable[[], int | None]:
    def command() -> int | None:
        raise error

    return command


ENDS: dict[str, tuple[BaseException, int, str]] = {
    "failed": (PenstockError("it  did not"), 1, "penstock: it  did not\n"),
    "of a broker": (NotControllerError("ask 2"), 1, "penstock: NOT_CONTROLLER: ask 2\n"),
    "configuration": (ConfigError("-c a: must be key=value"), 2, "penstock: -c a: must be key=value\n"),
    "an argument that the client refuses": (
        ValueError("offset=-2 must be\nfrom 0"),
        2,
        "penstock: offset=-2 must be from 0\n",
    ),
    "too large for a call": (OverflowError("int too large"), 2, "penstock: int too large\n"),
    "a file": (
        FileNotFoundError(errno.ENOENT, "No such file or directory", "x.svg"),
        1,
        "penstock: x.svg: No such file",
    ),
    "not confirmed": (typer.Abort(), 1, "penstock: not confirmed; nothing was changed\n"),
    "no home": (
        RuntimeError("Could not determine home directory."),
        1,
        "penstock: this user has no home directory; set HOME",
    ),
    "a bug": (KeyError("x"), 1, "penstock: unexpected KeyError: 'x'; this is a bug of Penstock"),
    "Ctrl-C": (KeyboardInterrupt(), 130, ""),
}


@pytest.mark.parametrize("row", ENDS)
def test_every_end_is_one_line_and_an_exit_code(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, exit_code, says = ENDS[row]
    assert run_command(raising(error)) == exit_code
    said = capsys.readouterr().err
    assert said.startswith(says) and said.count("\n") == (1 if says else 0)


@pytest.mark.parametrize("row", [row for row in ENDS if row != "Ctrl-C"])
def test_with_json_every_end_is_one_document(
    row: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "topics", "list", "--json"])
    error, exit_code, _ = ENDS[row]
    assert run_command(raising(error)) == exit_code
    assert json.loads(capsys.readouterr().err)["error"]["exit_code"] == exit_code


def test_a_bug_shows_where_it_is_to_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TRACEBACK", "1")
    with pytest.raises(KeyError):
        run_command(raising(KeyError("x")))


def test_an_argument_that_is_no_utf8_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "topics", "create", os.fsdecode(b"or\xffd")])
    try:
        sys.argv[-1].encode()
    except UnicodeEncodeError as error:
        assert failure_of(error)[1:3] == ("'or\\udcffd' is not valid UTF-8, as names and texts in a cluster are", 2)
    escaped = "größe".encode().decode("ascii", "surrogateescape")
    monkeypatch.setattr(sys, "argv", ["penstock", "topics", "create", escaped])
    with pytest.raises(UnicodeEncodeError) as raised:
        sys.argv[-1].encode()
    assert failure_of(raised.value).text.startswith("größe: the locale of this shell has no such letters")


def shell(redirections: str, code: str) -> subprocess.CompletedProcess[str]:
    """A command whose work is `code`, in a process of its own, with these streams."""
    head = "import os, sys\nfrom penstock.cli.edge.run import run_command"
    program = f"{head}\ndef work():\n    {code}\nsys.exit(run_command(work))"
    command = ["bash", "-c", f'exec "$@" {redirections}', "bash", sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


STREAMS = {
    "closed stdout": (">&-", "print('x')", 1, "penstock: standard output: Bad file descriptor; what was written"),
    "closed stdout, bytes": (">&-", "sys.stdout.buffer.write(b'x' * 100000)", 1, "penstock: standard output: Bad file"),
    "full stdout": (">/dev/full", "print('x')", 1, "penstock: standard output: No space left on device; what was"),
    "full stdout, bytes": (">/dev/full", "sys.stdout.buffer.write(b'x' * 100000)", 1, "penstock: standard output: No"),
    "closed stdin": ("<&-", "sys.stdin.buffer.read1(9)", 1, "penstock: standard "),
    "nothing to print": (">&-", "pass", 0, ""),
    "closed stderr": ("2>&-", "print('x', file=sys.stderr)", 0, ""),
    "all closed": ("<&- >&- 2>&-", "assert {os.readlink(f'/proc/self/fd/{n}') for n in '012'} == {os.devnull}", 0, ""),
    "full stderr": ("2>/dev/full", "from penstock.cli.output import note; note('x')", 0, ""),
}  # fmt: skip


@pytest.mark.parametrize("row", STREAMS)
def test_a_closed_or_full_stream_is_a_line_and_no_traceback(row: str) -> None:
    redirections, code, exit_code, says = STREAMS[row]
    done = shell(redirections, code)
    assert (done.returncode, done.stderr.count("\n")) == (exit_code, 1 if says else 0)
    assert done.stderr.startswith(says)


def test_letters_that_an_encoding_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code = "from penstock.cli.output import print_json; print('größe 😀'); print_json({'a': 'größe 😀'})"
    text, document = shell("", code).stdout.splitlines()
    assert text == r"gr\xf6\xdfe \U0001f600" and json.loads(document) == {"a": "größe 😀"}
