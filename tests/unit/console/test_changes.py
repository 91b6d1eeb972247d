"""Changes take their forms as browsers send them, and show commands that do the same."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from penstock.clock import ManualClock
from penstock.console.change import LINES_MAX, pairs_of, shell_command, text_lines
from penstock.console.change_table import CHANGES
from penstock.console.changes.other_changes import _record
from penstock.console.cluster_link import ClusterLink
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.settings import ConsoleSettings
from penstock.plain_text import plain_lines


def asked(user: str = "") -> PageAsked:
    settings = ConsoleSettings(
        bootstrap="a:1", origins=("http://127.0.0.1:1",), connection={"tls_ca": "my ca.pem"} if user else {}
    )
    return PageAsked(ClusterLink("a:1", {}, ManualClock()), Fields({}), settings, 0, user)


def test_a_command_is_quoted_for_a_shell() -> None:
    hostile = "a'; rm -rf / #$(x)`y`\n"
    command = shell_command(asked("an na"), ["topics", "create", "-c", hostile], ["orders"])
    assert shlex.split(command) == [
        *("penstock", "topics", "create", "-c", hostile, "--bootstrap", "a:1"),
        *("--tls-ca", "my ca.pem", "--username", "an na", "orders"),
    ]
    piped = shell_command(asked(), ["produce", "--json"], ["-x"], hostile)
    assert shlex.split(piped)[:4] == ["printf", "%s\\n", hostile, "|"] and shlex.split(piped)[-2:] == ["--", "-x"]


def test_lines_are_those_that_a_browser_sends() -> None:
    fields = Fields({"set": "a=1\r\n\r\n b = x=y \n", "many": "\n".join("x" * (LINES_MAX + 1))})
    assert pairs_of(fields, "set") == {"a": "1", "b": "x=y"}
    with pytest.raises(FieldError, match=r"^many: has \d+ lines"):
        text_lines(fields, "many")


@pytest.mark.parametrize("text", ["a", "=1", "a=1\na=2"])
def test_a_line_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match=r"^set: "):
        pairs_of(Fields({"set": text}), "set")


def test_a_null_value_and_an_empty_one_are_two_things() -> None:
    assert _record(Fields({"null": "yes"})) == {"key": None, "value": None}
    assert _record(Fields({"key": "k"})) == {"key": "k", "value": ""}
    with pytest.raises(FieldError, match=r"^null: "):
        _record(Fields({"null": "yes", "value": "x"}))
    with pytest.raises(FieldError, match=r"^headers: "):
        _record(Fields({"headers": "no value"}))


def test_every_change_has_an_address_and_fields_of_its_own() -> None:
    assert len({change.path for change in CHANGES}) == len(CHANGES)
    for change in CHANGES:
        every = [one.name for one in change.fields]
        assert len(set(every)) == len(every)
        assert not {"token", "sure", "typed", "plan", "form"} & set(every)


HOSTILE_NAMES = (
    "a'; rm -rf / #$(x)`y`",
    "-rf",
    "a\x1b]0;title\x07",
    "two\nlines\r",
    "\u202eevil\u2028",
    "\\'$'\x9b",
    "é",
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_shell_takes_the_command_as_the_page_shows_it(name: str) -> None:
    command = plain_lines(shell_command(asked(), ["groups", "reset-offsets"], [name], '{"key": "\x7f\x1b"}'))
    script = "penstock() { cat >&2; printf '%s\\0' \"$@\"; }; " + command
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=30, check=True)
    words = done.stdout.decode().split("\0")[:-1]
    assert words[-1] == name and words[:2] == ["groups", "reset-offsets"]
    assert done.stderr.decode() == '{"key": "\x7f\x1b"}\n'


def test_a_zero_byte_is_refused_because_a_shell_would_drop_what_follows() -> None:
    with pytest.raises(FieldError, match="a zero byte"):
        shell_command(asked(), ["groups", "reset-offsets"], ["group\0other"])
