"""Every command of docs/command-line.md, and of the pages about transactions, groups and Kafka, is parsed: its options
are there, with values that they accept. Commands within sentences of all pages are looked up, too, and every command
has examples in its help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli.examples import EXAMPLES
from penstock.cli.main import app

TOP = Path(__file__).resolve().parents[3]
PAGES = (
    TOP / "docs" / "command-line.md",
    TOP / "docs" / "from-kafka.md",
    TOP / "docs" / "transactions.md",
    TOP / "ops" / "procedures" / "look-after-groups.md",
    TOP / "ops" / "procedures" / "look-after-transactions.md",
)
LINES = [line for page in PAGES for line in re.findall(r"(?m)^ *(penstock .*)$", page.read_text(encoding="utf-8"))]
ROOT: Any = typer.main.get_command(app)
DESTROYING = (
    "acls delete",
    "brokers unregister",
    "elect-leaders",
    "features downgrade",
    "groups delete",
    "groups delete-offsets",
    "quorum make-dynamic",
    "quorum remove-voter",
    "topics delete",
    "topics delete-records",
    "users delete",
)


def check(line: str) -> None:
    words = re.split(r" [<>|] ", re.sub(r"\s{2,}#.*", "", line))[0]
    command, arguments = ROOT, shlex.split(words)[1:]
    while (found := getattr(command, "commands", {}).get(arguments[0] if arguments else "")) is not None:
        command, arguments = found, arguments[1:]
    if arguments and arguments[0].startswith("--install-completion"):
        assert any("--install-completion" in option.opts for option in ROOT.params)
        return
    context = command.make_context("penstock", arguments)
    assert context.command is command and not context.args


def leaves(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that a user sees, by its words."""
    for name, inner in getattr(command, "commands", {}).items():
        if getattr(inner, "commands", None):
            yield from leaves(inner, (*path, name))
        elif not inner.hidden:
            yield " ".join((*path, name)), inner


def options_of(command: Any) -> set[str]:
    return {"--help", "-h"} | {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_page_is_parsed(line: str) -> None:
    check(line)


def test_every_command_has_examples_in_its_help_that_are_parsed() -> None:
    shown = dict(leaves())
    assert shown.keys() == EXAMPLES.keys()
    for path, lines in EXAMPLES.items():
        for line in lines:
            assert line.startswith(f"penstock {path}") and line in shown[path].epilog
            check(line)


def test_the_words_of_before_go_on_and_are_not_shown() -> None:
    shown = dict(leaves())
    for line in (
        "penstock acls add User:a -o read --topic t",
        "penstock acls remove User:a --all",
        "penstock users add a",
        "penstock users set-password a",
        "penstock quotas set --user a --request-percentage 5",
        "penstock quotas remove --user a",
        "penstock reassignments start t-0=1,2",
        "penstock reassignments cancel t",
        "penstock configs describe-broker 1",
        "penstock configs alter t --delete retention.ms --validate-only",
    ):
        check(line)
        assert " ".join(line.split()[1:3]) not in shown or "--delete" in line


def test_a_command_that_changes_something_has_a_dry_run_and_a_question_where_it_destroys() -> None:
    changing = ("create", "alter", "delete", "delete-records", "delete-offsets", "reset-offsets", "drain", "unregister")
    for path, command in leaves():
        if path.split()[-1] in (*changing, "move", "abort", "balance", "elect-leaders"):
            assert "--dry-run" in options_of(command), path
        if path in DESTROYING:
            assert {"--yes", "-y"} <= options_of(command), path


@pytest.mark.parametrize("page", sorted((TOP / "ops").rglob("*.md")) + sorted((TOP / "docs").glob("*.md")), ids=str)
def test_a_command_that_a_page_names_is_there_with_its_options(page: Path) -> None:
    for text in re.findall(r"`(penstock [a-z][^`]*)`", page.read_text(encoding="utf-8")):
        words = " ".join(text.split()).split(" ")[1:]
        command: Any = ROOT
        while words and (found := getattr(command, "commands", {}).get(words[0])) is not None:
            command, words = found, words[1:]
        if command is ROOT or getattr(command, "commands", None):
            continue  # a group is named, or a command of a person's own shell
        for word in words:
            if re.fullmatch(r"--[a-z][a-z-]*", word):
                assert word in options_of(command), text


def test_the_page_has_commands() -> None:
    assert len(LINES) > 15
