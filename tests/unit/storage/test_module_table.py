"""docs/architecture.md names every module of a node, and none that is gone; of storage/ it says what each one is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SERVER_PACKAGES = ("broker", "metadata", "raft", "storage")


def page() -> str:
    return (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py"]


def test_every_module_of_storage_is_in_the_table_once() -> None:
    table = page().partition("### `storage/`, module by module\n")[2].partition("\n### ")[0]
    listed = re.findall(r"\| `(\w+\.py)` \|", table)
    assert sorted(listed) == sorted(path.name for path in modules("storage") if path.parent.name != "tools")


def test_every_module_of_a_node_is_named_with_its_folder_where_its_name_is_not_unique() -> None:
    server_modules = [path for path in modules(*SERVER_PACKAGES) if path.parent.name != "tools"]
    holders = Counter(path.name for path in server_modules)
    names = [f"{path.parent.name}/{path.name}" if holders[path.name] > 1 else path.name for path in server_modules]
    assert not [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}", page())]


def test_no_module_is_named_that_is_gone() -> None:
    here = {f"/{path.relative_to(ROOT)}" for path in modules(*SERVER_PACKAGES, "penstock")} | {"/pyspark_penstock.py"}
    named = re.findall(r"`([\w/]+\.py)`", page())
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in here)]
