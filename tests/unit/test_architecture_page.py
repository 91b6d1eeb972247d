"""docs/architecture.md and docs/non-obvious.md name no module, folder or member that is gone, and each so that it is
found. The list of all modules is made (docs/modules.md)."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("architecture.md", "non-obvious.md")
SERVER_PACKAGES = ("broker", "metadata", "raft", "storage")
OTHERS = ("penstock", "pyspark_penstock.py", "tests", "protos", "ops", "benchmarks", "docs")
FILE = re.compile(r"[\w/*]+\.py")
FOLDER = re.compile(r"[\w/*]+/")
CLASS = re.compile(r"(?m)^\s*class (\w+)")
MEMBER = re.compile(r"(\w+)\.(\w+)")
SUFFIXES = ("py", "md", "json")


def page() -> str:
    return "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES)


def spans(text: str) -> list[str]:
    """The words in backticks."""
    return [word for span in re.findall(r"`([^`\n]+)`", text) for word in span.split()]


@cache
def modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py"]


@cache
def code() -> list[Path]:
    return [*modules(*SERVER_PACKAGES, "penstock"), ROOT / "pyspark_penstock.py"]


@cache
def from_the_root(path: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(ROOT))


def meant_by(name: str, paths: list[Path]) -> list[Path]:
    """The paths that end in `name`. It may leave out the first folders, and `*` is any part of a name."""
    last = PurePosixPath(name).name
    if "*" not in last:  # a comparison is quicker than a match
        paths = [path for path in paths if path.name == last]
    return [path for path in paths if from_the_root(path).match(name)]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def names_of(path: Path) -> set[str]:
    """Everything that a module or a class in it defines or assigns."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def members(wanted: set[str]) -> dict[str, set[str]]:
    """By class: what it has of its own. By module: what is in it. Only the modules and classes that are wanted."""
    found: dict[str, set[str]] = {}
    for path in code():
        if path.stem not in wanted and wanted.isdisjoint(CLASS.findall(path.read_text(encoding="utf-8"))):
            continue  # to parse all of them takes eight seconds
        found.setdefault(path.stem, set()).update(names_of(path))
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                own = {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
                own |= {
                    part.target.id
                    for part in node.body
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                }
                own |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
                found.setdefault(node.name, set()).update(own)
    return found


def test_every_name_of_a_file_leads_to_one_file() -> None:
    """A bare name would have to be guessed from its row where two files have it."""
    found = {name: len(meant_by(name, code())) for name in spans(page()) if FILE.fullmatch(name)}
    assert not [name for name, files in found.items() if files == 0 or (files > 1 and "*" not in name)]


def test_no_folder_is_named_that_is_gone() -> None:
    folders = [path for top in (*SERVER_PACKAGES, *OTHERS) for path in (ROOT / top, *(ROOT / top).rglob("*/"))]
    folders = [path for path in folders if path.is_dir() and any(path.iterdir())]
    named = [name for name in spans(page()) if FOLDER.fullmatch(name)]
    assert not [name for name in named if not meant_by(name.rstrip("/"), folders)]


def test_no_member_of_a_class_or_a_module_is_named_that_is_gone() -> None:
    """`Class.name`, or `module.name`. Without capital or underscore it may be a key of the configuration."""
    named = [match for name in spans(page()) if (match := MEMBER.fullmatch(name.partition("(")[0]))]
    known = members({match[1] for match in named})
    assert not [
        match[0]
        for match in named
        if (match[1][0].isupper() or (match[1] in known and "_" in match[0]))
        and match[2] not in known.get(match[1], ())
        and match[2] not in SUFFIXES
    ]


def test_every_link_to_a_section_of_the_page_leads_to_one() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    heads = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"(?m)^#+ (.*)$", text)]
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= set(heads)
