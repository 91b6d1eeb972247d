"""Writes SVG as text: elements with escaped attributes and texts, a title and a description for a screen reader.

No element has a `style` attribute and none has a script: colours come from the classes of the console's style sheet, so
that a strict Content-Security-Policy holds, and light and dark are the style sheet's. Texts are made plain first
(`penstock/plain_text.py`). Pure. Not here: where things stand in a picture.
"""

from __future__ import annotations

from html import escape

from penstock.plain_text import plain_lines

CHARACTER_WIDTH = 7
"""About how wide a letter is at 12 px; names are cut to the width that they have."""


class SvgPicture:
    """One picture, added to from the back to the front."""

    def __init__(self, *, width: int, height: int, title: str, description: str, picture_id: str) -> None:
        self._head = (
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' aria-labelledby="{picture_id}-title {picture_id}-desc" xmlns="http://www.w3.org/2000/svg">'
            f'<title id="{picture_id}-title">{escaped(title)}</title>'
            f'<desc id="{picture_id}-desc">{escaped(description)}</desc>'
        )
        self._parts: list[str] = []
        self._has_links = False
        """It is a group then: a screen reader does not reach the links of an image."""

    def rectangle(self, x: float, y: float, width: float, height: float, shape: str, *, tip: str = "") -> None:
        """A box; `shape` is its class, and `tip` what a pointer over it shows."""
        at = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{shape}"'
        self._parts.append(f"<rect {at}>{_tip(tip)}</rect>" if tip else f"<rect {at}/>")

    def circle(self, x: float, y: float, radius: float, shape: str, *, tip: str = "") -> None:
        at = f'cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{shape}"'
        self._parts.append(f"<circle {at}>{_tip(tip)}</circle>" if tip else f"<circle {at}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, shape: str) -> None:
        self._parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{shape}"/>')

    def curve(self, x1: float, y1: float, x2: float, y2: float, width: float, shape: str, *, tip: str = "") -> None:
        """A band from left to right."""
        middle = (x1 + x2) / 2
        path = f"M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"
        self._parts.append(f'<path d="{path}" stroke-width="{width:g}" fill="none" class="{shape}">{_tip(tip)}</path>')

    def text(
        self, x: float, y: float, words: str, shape: str = "label", *, anchor: str = "start", width: float = 0
    ) -> None:
        """A line of text; a `width` cuts it, and the whole of it is its tip."""
        shown = shortened(words, width) if width else words
        tip = _tip(words) if shown != words else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{shape}">{escaped(shown)}{tip}</text>'
        )

    def link(self, address: str, x: float, y: float, words: str, *, anchor: str = "start", width: float = 0) -> None:
        """A text that leads to a page."""
        self._has_links = True
        self._parts.append(f'<a href="{escaped(address)}">')
        self.text(x, y, words, "label link", anchor=anchor, width=width)
        self._parts.append("</a>")

    def written(self) -> str:
        """The picture as text."""
        role = "group" if self._has_links else "img"
        return f'<svg class="picture" role="{role}" {self._head}' + "".join(self._parts) + "</svg>"

    def __repr__(self) -> str:
        return f"SvgPicture({len(self._parts)} parts)"


def escaped(words: str) -> str:
    """Text that is safe in an element and in a quoted attribute."""
    return escape(plain_lines(words), quote=True)


def shortened(words: str, width: float) -> str:
    """The beginning of a text that fits the width."""
    letters = max(int(width // CHARACTER_WIDTH), 1)
    return words if len(words) <= letters else words[: letters - 1] + "…"


def _tip(words: str) -> str:
    return f"<title>{escaped(words)}</title>"
