"""Makes one page of metrics of those of several nodes: each sample gets a label that says whose it is.

The text format wants each family of metrics once, with all of its samples; so the nodes' pages are taken apart by
family and put together, line by line. No number is read: what a node says stays as it is. A page that is not in the
format loses what is not, and never the others' lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from penstock.lazy_dataclass import dataclass

LABEL: Final = "instance"
"""Prometheus' own label of who was asked. The scrape configuration keeps it (docs/host.md), so dashboards and alerts
know the nodes of a host apart as if each had been asked."""
_HEADS: Final = ("# HELP ", "# TYPE ")


def one_page(pages: Mapping[str, str]) -> str:
    """The page of all nodes; `pages` are theirs by the value of the label. The first page that has a family says what
    it is."""
    families: dict[str, _Family] = {}
    for name, text in pages.items():
        mark = f'{LABEL}="{_escaped(name)}"'
        family: _Family | None = None
        for line in text.splitlines():
            if line.startswith(_HEADS):
                family = families.setdefault(line.split(" ", 3)[2], _Family(name))
                if family.of == name:
                    family.heads.append(line)
            elif line and not line.startswith("#") and family is not None:
                family.samples.append(_marked(line, mark))
    return "".join(f"{line}\n" for family in families.values() for line in (*family.heads, *family.samples))


@dataclass(slots=True)
class _Family:
    """The lines of one family of metrics."""

    of: str
    """The page that had it first."""
    heads: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


def _marked(line: str, mark: str) -> str:
    """The sample's line with one label more, which stands first."""
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f"{name}{{{mark}{'' if rest.startswith('}') else ','}{rest}"
    name, _, value = line.partition(" ")
    return f"{name}{{{mark}}} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
