"""The texts of a release: its version from the tag, its part of the changelog, and README as an index shows it."""

from __future__ import annotations

import posixpath
import re

from packaging.version import InvalidVersion, Version

REPOSITORY = "https://github.com/penstock/penstock"
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_VERSION_LINE = re.compile(r'(?m)^__version__ = "[^"]*"$')


def version_of(tag: str) -> str:
    """The version of a tag like v0.3.0 or v0.3.0rc1; SystemExit for any other tag, and for a version that is not in its
    normal form: the wheel would have another name than the tag says."""
    text = tag.removeprefix("v")
    try:
        version = Version(text)
    except InvalidVersion:
        version = None
    if version is None or not tag.startswith("v") or str(version) != text or version.local or version.is_devrelease:
        raise SystemExit(f"{tag}: no tag of a release; it is v and a version in its normal form, like v0.3.0")
    return text


def with_version(module: str, version: str) -> str:
    """penstock/version.py with another version."""
    changed, count = _VERSION_LINE.subn(f'__version__ = "{version}"', module)
    if count != 1:
        raise SystemExit(f"penstock/version.py has {count} lines with __version__, and needs one")
    return changed


def changes_of(changelog: str, version: str) -> str:
    """The release's part of CHANGELOG.md; SystemExit where it is missing or empty, or something is still unreleased."""
    parts = re.split(r"(?m)^## +", changelog)[1:]
    named = {part.split("\n", 1)[0].split()[0].strip("[]"): part.partition("\n")[2].strip() for part in parts}
    wanted = str(Version(version).base_version)  # a candidate has the changes of its release
    if not named.get(wanted):
        raise SystemExit(f"CHANGELOG.md says nothing of {wanted}: give its part the heading '## {wanted} (date)'")
    if named.get("Unreleased"):
        raise SystemExit(f"CHANGELOG.md has changes below 'Unreleased': what is tagged is released, as {wanted}")
    return named[wanted]


def readme_for_index(readme: str, tag: str) -> str:
    """README with links and pictures that lead to the repository at the tag: an index shows the text alone."""

    def target(link: re.Match[str]) -> str:
        path = link[2]
        if "://" in path or path.startswith(("#", "mailto:")):
            return link.group()
        kind = "raw" if path.endswith((".png", ".svg", ".jpg", ".gif")) else "blob"
        return f"{link[1]}{REPOSITORY}/{kind}/{tag}/{posixpath.normpath(path)}{link[3]}"

    return _LINK.sub(target, readme)
