"""docs/architecture.md says of every module of storage/ what it is, and of none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_module_of_storage_is_in_the_table_once() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("### `storage/`, module by module\n")[2].partition("\n## ")[0]
    listed = re.findall(r"\| `(\w+\.py)` \|", table)
    modules = [path.name for path in (ROOT / "storage").glob("*.py") if path.name != "__init__.py"]
    assert sorted(listed) == sorted(modules)
