"""The hooks that MkDocs calls while it builds the site: the first page, the navigation, and links that leave docs/.

The pages are written for a reader of the repository, whose links are files. On the site a link to a page of docs/ stays
in the site, and one to any other file goes to the repository, at the commit or tag of PENSTOCK_SITE_REF.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REF_VARIABLE = "PENSTOCK_SITE_REF"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"(?ms)^( *)```.*?^\1```[^\n]*$|`[^`\n]+`")
ENTRY = re.compile(r"\[([^\]]+)\]\(docs/([^)#]+\.md)\)")
GROUP = re.compile(r"(?m)^- \*\*([^*]+)\*\*: (.*)$")


def on_config(config: Any) -> Any:
    """The navigation: the groups of README's list of pages, in its order, then the decisions."""
    groups = GROUP.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    nav: list[dict[str, Any]] = [{"Penstock": "index.md"}]
    nav += [{name: pages} for name, text in groups if (pages := [{title: path} for title, path in ENTRY.findall(text)])]
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    config.nav = [*nav, {"Decisions": [f"adr/{name}" for name in decisions]}]
    return config


def on_files(files: Any, config: Any) -> Any:
    """README is the first page."""
    from mkdocs.structure.files import File  # here, so that the rest can be tried without it

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=relinked(text, "", repository(config))))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with links that lead somewhere on the site."""
    if page.file.src_uri == "index.md":
        return markdown
    return relinked(markdown, f"docs/{posixpath.dirname(page.file.src_uri)}", repository(config))


def repository(config: Any) -> str:
    """The address of a file of this version in the repository, less its path."""
    return f"{config.repo_url}/blob/{os.environ.get(REF_VARIABLE, 'main')}"


def relinked(text: str, folder: str, repository: str) -> str:
    """The text of a page of `folder` (from the root), in which links outside of docs/ go to the repository. What stands
    in code is left alone."""
    parts, at = [], 0
    for code in FENCE.finditer(text):
        parts += [_relinked(text[at : code.start()], folder, repository), code.group()]
        at = code.end()
    return "".join([*parts, _relinked(text[at:], folder, repository)])


def _relinked(text: str, folder: str, repository: str) -> str:
    def target(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return link.group()
        whole = posixpath.normpath(posixpath.join(folder, path))
        is_page = whole.startswith("docs/") and (ROOT / whole).is_file()
        if is_page:
            whole = posixpath.relpath(whole, folder if folder.startswith("docs") else "docs")
            return f"{link[1]}{whole}{mark}{anchor}{link[3]}"
        return f"{link[1]}{repository}/{whole}{mark}{anchor}{link[3]}"

    return LINK.sub(target, text)
