"""Promises about what is printed: a name that a stranger has chosen breaks no line, and steers no terminal."""

from __future__ import annotations

import io

import pytest

from penstock.cli.output import print_fields, print_table, raise_common_refusal
from penstock.errors import InvalidRequestError, PenstockError, TopicAuthorizationFailedError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["[/x]", "[bold]x", "[red]", ":smile:", "[link=https://x]y[/link]"])
def test_a_name_is_no_markup_on_a_terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    print_table(["id", "state"], [(name, "Empty")])
    assert name in terminal.getvalue()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\nb\tc", r"a\nb\tc"),
        ("a\0b\x9bc", r"a\x00b\x9bc"),
        ("a\u202eb\u2028c", r"a\u202eb\u2028c"),
        ("\u00e9\u65e5", "\u00e9\u65e5"),
    ],
)
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_name_stays_on_its_line_and_steers_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, shown: str, is_terminal: bool
) -> None:
    out = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    print_table(["id", "state"], [(name, "Empty")])
    print_fields({"id": name})
    assert out.getvalue().count(shown) == 2
    if not is_terminal:
        assert out.getvalue() == f"id\tstate\n{shown}\tEmpty\nid: {shown}\n"


def test_a_refusal_of_every_part_is_told_once_and_others_each_by_itself() -> None:
    def refusal(topic: str) -> PenstockError:
        return TopicAuthorizationFailedError(f"User:anna may not Read on topic {topic!r}")

    with pytest.raises(TopicAuthorizationFailedError, match="'a'"):
        raise_common_refusal([refusal("a"), refusal("a")])
    raise_common_refusal([])
    raise_common_refusal([refusal("a"), None])
    raise_common_refusal([refusal("a"), refusal("b")])
    raise_common_refusal([InvalidRequestError("no"), InvalidRequestError("no")])
