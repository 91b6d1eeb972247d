"""The documentation as a site: built whole and strictly, so a link that leads nowhere ends it.

Each version has a folder of its own below the output, and `versions.json` names them, newest first, in the form that
mike writes and the theme's menu of versions reads. What is published where is the publisher's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.supply_chain.lock import ROOT

CONFIG = ROOT / "ops" / "site" / "mkdocs.yml"
VERSIONS = "versions.json"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.]{0,30}|dev")


def build(output: Path, version: str, ref: str = "main", root: Path = ROOT) -> int:
    """0 when the site of this version is in output/version, and the list of versions names it. `ref`: the tag or branch
    to which links outside of docs/ lead."""
    if not _VERSION.fullmatch(version):
        raise SystemExit(f"--version {version}: must be a version, like 0.3.0, or dev")
    if importlib.util.find_spec("material") is None:
        raise SystemExit("this command needs mkdocs-material: pip install -e '.[docs]'")
    target = (output / version).resolve()
    environment = os.environ | {"PENSTOCK_SITE_REF": ref, "NO_MKDOCS_2_WARNING": "1"}
    config = root / CONFIG.relative_to(ROOT)
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(config)]
    done = subprocess.run([*command, "--site-dir", str(target)], env=environment, cwd=root)
    if done.returncode:
        return done.returncode
    name_version(output, version)
    pages = sum(1 for _ in target.rglob("*.html"))
    print(f"{target}: {pages} pages, every link to a page and its anchors is there")
    return 0


def name_version(output: Path, version: str) -> None:
    """Adds the version to the list; a list that is damaged is an error, and stays."""
    path = output / VERSIONS
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    names = {one["version"] for one in known} | {version}
    ordered = sorted(names, key=newness, reverse=True)
    newest = next((name for name in ordered if name != "dev"), "")
    listed = [{"version": name, "title": name, "aliases": ["latest"] if name == newest else []} for name in ordered]
    path.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def newness(version: str) -> tuple[int, tuple[int, ...], str]:
    """Sorts versions by their numbers; what is not released comes last, and so is newest."""
    if version == "dev":
        return 1, (), ""
    return 0, tuple(int(number) for number in re.findall(r"\d+", version)), version
