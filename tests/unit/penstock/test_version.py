"""The version: one source, which the build and everything that runs read, and a section of the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.version import Version
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli.main import app
from penstock.debug.collecting import PACKAGES

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEADINGS = re.findall(r"(?m)^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def test_the_build_reads_the_version_from_the_package_alone() -> None:
    assert "version" not in PROJECT["project"]
    built = ProjectMetadata(str(ROOT), PluginManager(), PROJECT)
    assert built.version == __version__ == str(Version(__version__))


def test_the_version_is_of_the_scheme_that_the_page_promises() -> None:
    """MAJOR.MINOR.PATCH of a release, the same with .devN of the tree on its way there."""
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(\.dev\d+)?", __version__)


def test_the_changelog_names_the_version_of_the_tree() -> None:
    """A release has a section with its date, which is the newest; a tree on its way to one has an unreleased one."""
    newest, date = HEADINGS[0]
    if Version(__version__).is_devrelease:
        assert (newest, date) == ("Unreleased", "")
        assert Version(HEADINGS[1][0]) < Version(__version__)
    else:
        assert newest == __version__ and date


def test_the_releases_of_the_changelog_are_in_order_and_have_dates() -> None:
    released = [(Version(name), date) for name, date in HEADINGS if name != "Unreleased"]
    assert released == sorted(released, reverse=True)
    assert all(date for _, date in released)


def test_code_tells_its_own_version_and_not_that_of_a_distribution() -> None:
    """A tree that PYTHONPATH names may run beside an installed one."""
    assert CliRunner().invoke(app, ["--version"]).stdout == f"{__version__}\n"
    asking = [path for path in (ROOT / "penstock").rglob("*.py") if "importlib.metadata" in path.read_text()]
    assert asking == [ROOT / "penstock" / "debug" / "collecting.py"] and "penstock" not in PACKAGES
