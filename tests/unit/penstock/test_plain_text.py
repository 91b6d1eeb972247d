"""Text from outside steers no terminal and breaks no line, wherever it comes out: a table of texts and of places."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from broker.audit.audit_log import AuditLog
from broker.metrics.metrics_text import _escaped
from broker.node.install.command import _say
from broker.node.process.log_output import JsonLines, TextLines
from penstock.cli import output
from penstock.cli.console.record_json import json_line, parse_record
from penstock.cli.edge import run as edge
from penstock.cli.edge.usage import show_usage
from penstock.errors import ConfigError, error_for
from penstock.node import _complain
from penstock.plain_text import one_line, plain_json, plain_lines

ROOT = Path(__file__).resolve().parents[3]
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

TEXTS = {
    "the title of a window": ("a\x1b]0;owned\x07b", r"a\x1b]0;owned\x07b"),
    "a cleared screen": ("a\x1b[2J\x1b[Hb", r"a\x1b[2J\x1b[Hb"),
    "CSI of 8 bits": ("a\x9b31mb", r"a\x9b31mb"),
    "OSC and ST of 8 bits": ("a\x9d0;x\x9cb", r"a\x9d0;x\x9cb"),
    "DEL": ("a\x7fb", r"a\x7fb"),
    "a backspace and a NUL": ("a\b\0b", r"a\x08\x00b"),
    "a forged line": ("a\nroot@host:~# b", r"a\nroot@host:~# b"),
    "a carriage return": ("a\rb", r"a\rb"),
    "a line of C1": ("a\x85b", r"a\x85b"),
    "separators": ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
    "turned text": (f"a{TURNING}b", "a" + ascii(TURNING)[1:-1] + "b"),
    "half a pair": ("a\udc9bb", r"a\udc9bb"),
    "a tab": ("a\tb", r"a\tb"),
    "letters of every kind": ("größe, 注文, שלום, 🦄, e\u0301, a\u200db", "größe, 注文, שלום, 🦄, e\u0301, a\u200db"),
}


def printed(act: Callable[[], object]) -> str:
    """Everything that it writes, to either stream."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        act()
    return out.getvalue()


def with_json(act: Callable[[], object]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["penstock", "topics", "list", "--json"])
        return printed(act)


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("broker.kafka", logging.WARNING, "x.py", 1, "refused %s", (text,), None)


def failed(text: str) -> logging.LogRecord:
    try:
        raise ValueError(text)
    except ValueError as error:
        made = record(text)
        made.exc_info = (ValueError, error, error.__traceback__)
    return made


def audited(text: str) -> str:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("penstock.audit")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        AuditLog(lambda: 0).done("done", {"principal": text, "request": {text: [text]}})
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    return lines[0]


def on_a_terminal(act: Callable[[], object]) -> str:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        act()
    return terminal.getvalue()


def consumed(text: str) -> str:
    found = SimpleNamespace(
        topic="t", partition=0, offset=0, timestamp_ms=0, key=text.encode("utf-8", "surrogatepass"), value=None,
        headers=[(text.replace("\udc9b", ""), text.encode("utf-8", "surrogatepass"))],
    )  # fmt: skip
    return json_line(found).decode()


def shown_by_python(text: str) -> str:
    error = error_for(-1, text)
    return printed(lambda: edge._show(type(error), error, None))


PLACES: dict[str, Callable[[str], str]] = {
    "a server's error": lambda text: printed(lambda: edge.tell(edge.failure_of(error_for(-1, text)))),
    "a server's error as JSON": lambda text: with_json(lambda: edge.tell(edge.failure_of(error_for(-1, text)))),
    "a bug": lambda text: printed(lambda: edge.tell(edge.failure_of(KeyError(text)))),
    "an error of the system": lambda text: printed(lambda: edge.tell(edge.failure_of(FileNotFoundError(2, "x", text)))),
    "an error of a file of keys": lambda text: printed(lambda: edge.tell(edge.failure_of(ConfigError(text)))),
    "wrong usage": lambda text: printed(lambda: show_usage("penstock", typer.BadParameter(text))),
    "a line of a result": lambda text: printed(lambda: output.say(f"deleted {text}")),
    "cells in a pipe": lambda text: printed(lambda: output.print_table(["name"], [[text]])),
    "a table": lambda text: on_a_terminal(lambda: output.print_table(["name"], [[text]])),
    "fields": lambda text: printed(lambda: output.print_fields({"name": text})),
    "a document": lambda text: printed(lambda: output.print_json({text: [text]})),
    "a note": lambda text: printed(lambda: output.note(f"waiting for {text}")),
    "a record as JSON": consumed,
    "a node that does not start": lambda text: printed(lambda: _complain(ValueError(), text, 1, False)),
    "an installation": lambda text: printed(lambda: _say(text)),
    "a line of the log": lambda text: TextLines().format(record(text)),
    "a traceback in the log": lambda text: TextLines().format(failed(text)),
    "a line of the log in JSON": lambda text: JsonLines(1).format(record(text)),
    "a traceback in JSON": lambda text: JsonLines(1).format(failed(text)),
    "an audit": audited,
    "a label of /metrics": lambda text: f'client_id="{_escaped(text)}"',
    "a traceback for those who ask": shown_by_python,
}
WITH_LINES = (
    "a line of the log",
    "a traceback in the log",
    "cells in a pipe",
    "a table",
    "a label of /metrics",
    "a traceback for those who ask",
)
"""They have lines and tabs of their own. A later line of a record of the log is indented."""


def steering(text: str) -> list[str]:
    """The characters that do more than show a letter."""
    bad = "\u200e\u200f\u061c"
    return [
        hex(ord(letter))
        for letter in text
        if unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs")
        or letter in bad
        or unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    ]


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_has_one_plain_form(what: str) -> None:
    text, plain = TEXTS[what]
    assert one_line(text) == plain and not steering(plain)
    assert one_line(plain) == plain
    assert plain_lines(text.replace("\n", "").replace("\t", "")) == plain.replace(r"\n", "").replace(r"\t", "")
    document = plain_json(json.dumps({text: text}, ensure_ascii=False))
    assert not steering(document) and json.loads(document) == {text: text}, "the document means the same"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", TEXTS)
def test_no_text_steers_a_terminal_from_any_place(what: str, place: str) -> None:
    text, _ = TEXTS[what]
    shown = PLACES[place](text)
    assert shown, "nothing was shown"
    body = shown.removesuffix("\n")
    if place in WITH_LINES:
        body = body.replace("\n", "").replace("\t", "")
    if place == "a table":
        body = body.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert not steering(body)
    if "forged" in what and place != "a traceback for those who ask":
        assert "\nroot@host" not in shown


def test_a_record_as_json_is_read_back_byte_for_byte() -> None:
    for text, _ in TEXTS.values():
        found = parse_record(consumed(text).encode())
        assert (found.key, found.headers[0][1]) == (text.encode("utf-8", "surrogatepass"),) * 2


def test_letters_of_every_kind_stay_as_they_are_in_the_log() -> None:
    text, _ = TEXTS["letters of every kind"]
    assert TextLines("node 11").format(record(text)).startswith("node 11: ")
    assert text in TextLines().format(record(text)) and text in JsonLines(1).format(record(text))


def test_commands_print_by_the_functions_that_make_text_plain() -> None:
    """`consume` and the tools that pass JSON on write bytes, to stdout's buffer."""
    wrong: list[str] = []
    for path in sorted((ROOT / "penstock" / "cli").rglob("*.py")):
        inside = path.relative_to(ROOT).as_posix()
        if inside in ("penstock/cli/output.py", "penstock/cli/edge/run.py", "penstock/cli/edge/usage.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"):
                wrong.append(f"{inside}:{cast(Any, node).lineno}: {called}")
    assert not wrong
