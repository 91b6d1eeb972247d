"""docs/modules.md is what the docstrings of the modules say, and every folder and module says it in one sentence."""

from __future__ import annotations

from tests.support.module_index import ROOT, first_sentence, folders, page


def test_the_page_is_made_from_the_modules() -> None:
    made = page()
    committed = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    assert committed == made, "run `python -m tests.support.module_index > docs/modules.md`"


def test_every_folder_and_every_module_begins_with_a_sentence() -> None:
    paths = [path for folder in folders() for path in folder.glob("*.py")]
    silent = [str(path.relative_to(ROOT)) for path in paths if not first_sentence(path).endswith((".", "?"))]
    assert not sorted(silent)
