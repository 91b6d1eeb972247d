"""A release is what its tag says: the version, its changes, a README that an index can show; and its site."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from penstock.version import __version__
from tests.supply_chain import release, site
from tests.supply_chain.lock import ROOT
from tests.supply_chain.release_texts import changes_of, readme_for_index, version_of, with_version

CHANGELOG = """# Changelog
## Unreleased
## 0.4.0 (2027-01-01)
### Added
- a
## 0.3.0 (2026-12-01)
- b
"""


@pytest.mark.parametrize(
    ("tag", "version"), [("v0.3.0", "0.3.0"), ("v1.2.3rc4", "1.2.3rc4"), ("v2.0.0.post1", "2.0.0.post1")]
)
def test_the_tag_is_the_version(tag: str, version: str) -> None:
    assert version_of(tag) == version
    assert with_version('x = 1\n__version__ = "0.0.1.dev0"\n', version) == f'x = 1\n__version__ = "{version}"\n'


@pytest.mark.parametrize(
    "tag", ["0.3.0", "v0.3.0-rc1", "v0.3.0.dev1", "v0.3.0+mine", "v", "release", "v01.2.3", "--all"]
)
def test_any_other_tag_is_refused(tag: str) -> None:
    with pytest.raises(SystemExit, match="no tag of a release"):
        version_of(tag)


def test_the_module_has_one_line_with_its_version() -> None:
    module = (ROOT / "penstock" / "version.py").read_text(encoding="utf-8")
    assert f'__version__ = "{__version__}"' in module and '"9.9.9"' in with_version(module, "9.9.9")
    with pytest.raises(SystemExit, match="has 2 lines"):
        with_version(module + module, "9.9.9")


def test_the_changes_are_the_releases_own_and_a_candidates_are_those_of_its_release() -> None:
    assert changes_of(CHANGELOG, "0.3.0") == "- b"
    assert changes_of(CHANGELOG, "0.4.0rc1") == "### Added\n- a"
    with pytest.raises(SystemExit, match=r"says nothing of 0\.5\.0"):
        changes_of(CHANGELOG, "0.5.0")
    with pytest.raises(SystemExit, match="below 'Unreleased'"):
        changes_of(CHANGELOG.replace("## Unreleased", "## Unreleased\n- c"), "0.4.0")


def test_the_projects_own_changelog_has_every_release() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changes_of(re.sub(r"(?s)## Unreleased.*?(?=\n## )", "", text), "0.2.0")


def test_a_readme_on_an_index_has_no_link_that_leads_nowhere() -> None:
    text = readme_for_index((ROOT / "README.md").read_text(encoding="utf-8"), "v9.9.9")
    targets = re.findall(r"\]\(([^)\s]+)", text)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "[x](https://github.com/penstock/penstock/raw/v9.9.9/docs/a.svg)" in readme_for_index(
        "[x](docs/a.svg)", "v9.9.9"
    )
    assert readme_for_index("[x](#here) [y](https://z)", "v1.0.0") == "[x](#here) [y](https://z)"


def test_sums_are_those_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "site").mkdir()
    release.write_sums(tmp_path)
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "one: OK\n"


def test_a_python_that_is_asked_for_by_name_must_be_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not release.installed(tmp_path / "none.whl", tmp_path, ["3.99"], "1.0.0")
    assert capsys.readouterr().out == "Python 3.99: not here, not tried\n"
    assert release.interpreter(sys.executable) == sys.executable
    assert release.interpreter(".".join(map(str, sys.version_info[:2]))) is not None


def test_an_unknown_tag_and_a_folder_that_is_not_empty_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        release.run("v9.9.9", tmp_path, [], has_site=False)
    with pytest.raises(SystemExit, match="git knows no such tag"):
        release.export("v9.9.9", tmp_path / "new")


# -- the site ----------------------------------------------------------------------------------------------------------


def hooks() -> ModuleType:
    found = importlib.util.spec_from_file_location("hooks", ROOT / "ops" / "site" / "hooks.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_links_stay_on_the_site_where_they_can_and_code_is_left_alone() -> None:
    relinked, there = hooks().relinked, "https://r/blob/v1"
    text = "[a](host.md#x) [b](../ops/README.md#y) [c](https://z) [d](#e) `[f](../g.md)`\n```\n[h](../i.md)\n```\n"
    assert relinked(text, "docs", there) == (
        "[a](host.md#x) [b](https://r/blob/v1/ops/README.md#y) [c](https://z) [d](#e) `[f](../g.md)`\n```\n"
        "[h](../i.md)\n```\n"
    )
    assert (
        relinked("[a](docs/host.md) [b](CHANGELOG.md)", "", there) == "[a](host.md) [b](https://r/blob/v1/CHANGELOG.md)"
    )
    assert relinked("[a](../host.md)", "docs/adr", there) == "[a](../host.md)"


def test_the_navigation_has_readmes_pages_and_every_decision() -> None:
    config = type("Config", (), {})()
    nav = hooks().on_config(config).nav
    listed = [path for group in nav for pages in group.values() if isinstance(pages, list) for path in pages]
    pages = [path for entry in listed if isinstance(entry, dict) for path in entry.values()]
    assert "host.md" in pages and len(pages) > 30
    assert sum(isinstance(entry, str) for entry in listed) == len(list((ROOT / "docs" / "adr").glob("*.md")))


def test_versions_are_listed_newest_first_and_one_is_the_latest(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "dev", "0.9.0"):
        site.name_version(tmp_path, version)
    listed = json.loads((tmp_path / site.VERSIONS).read_text(encoding="utf-8"))
    assert [one["version"] for one in listed] == ["dev", "0.10.0", "0.9.0"]
    assert [one["aliases"] for one in listed] == [[], ["latest"], []]
    with pytest.raises(SystemExit, match="must be a version"):
        site.build(tmp_path, "../x")
