"""Makes docs/modules.md from the docstrings of the modules: `python -m tests.support.module_index > docs/modules.md`.

A folder has the first sentence of its `__init__.py`, a module that of its own docstring. Both are sorted by their path,
so the page changes only where a module does. A test compares the page with the modules. Not here: tests, and generated
code.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("broker", "metadata", "penstock", "raft", "storage")
GENERATED = "penstock/pb"
INTRODUCTION = """# Modules

Made by `python -m tests.support.module_index` from the first sentence of each module; do not edit by hand.
[Architecture](architecture.md) says in which order the modules are walked through.
"""
SENTENCE = re.compile(r"(.+?[.!?])(?=\s+[A-Z`\d(]|\s*$)", re.DOTALL)


def first_sentence(path: Path) -> str:
    """The sentence in one line; empty for a module without a docstring."""
    paragraph = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    found = SENTENCE.match(paragraph)
    return " ".join((found[1] if found else paragraph).split())


def folders() -> list[Path]:
    found = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return sorted(folder for folder in found if not folder.is_relative_to(ROOT / GENERATED))


def page() -> str:
    sections = [INTRODUCTION]
    for folder in folders():
        under = folder.relative_to(ROOT)
        sections.append(f"## {under}/\n\n{first_sentence(folder / '__init__.py')}\n")
        modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if modules:
            rows = [f"- [{path.name}](../{under}/{path.name}): {first_sentence(path)}\n" for path in modules]
            sections.append("".join(rows))
    return "\n".join(sections)


if __name__ == "__main__":
    sys.stdout.write(page())
