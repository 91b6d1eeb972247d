"""Every command of docs/command-line.md, of docs/transactions.md, and of the pages about groups and transactions for
operators, is parsed: its options are there, with values that they accept."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from penstock.cli.main import app

TOP = Path(__file__).resolve().parents[3]
PAGES = (
    TOP / "docs" / "command-line.md",
    TOP / "docs" / "transactions.md",
    TOP / "ops" / "procedures" / "look-after-groups.md",
    TOP / "ops" / "procedures" / "look-after-transactions.md",
)
LINES = [line for page in PAGES for line in re.findall(r"(?m)^ *(penstock .*)$", page.read_text(encoding="utf-8"))]
ROOT = typer.main.get_command(app)


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_page_is_parsed(line: str) -> None:
    words = re.split(r" [<>|] ", re.sub(r"\s{2,}#.*", "", line))[0]
    command, arguments = ROOT, shlex.split(words)[1:]
    while (found := getattr(command, "commands", {}).get(arguments[0] if arguments else "")) is not None:
        command, arguments = found, arguments[1:]
    if arguments and arguments[0].startswith("--install-completion"):
        assert any("--install-completion" in option.opts for option in ROOT.params)
        return
    context = command.make_context("penstock", arguments)
    assert context.command is command and not context.args


def test_the_page_has_commands() -> None:
    assert len(LINES) > 15
