"""Templates, and the forms in which they show numbers, sizes and times.

Everything is escaped (autoescape), and made plain first (`penstock/plain_text.py`): a name with the controls of
bidirectional text makes no letters trade places. `exact` is for fields of forms, which come back as they were.

A view is shared by those who ask for a page in the same moment (cluster_link.py), and to write it as HTML or JSON costs
more than to ask for it: KeptTexts makes the text once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from penstock.client.admin.health.health_check import seconds
from penstock.console.page import address_of
from penstock.plain_text import plain_lines

TEMPLATES: Final = Path(__file__).parent / "templates"
KEPT_MAX: Final = 32
TEXT_LETTERS_MAX: Final = 64 * 1024
"""A longer text is not kept, and neither is its view: the page of a lone reader, such as one of many records."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def template_environment() -> jinja2.Environment:
    """The templates of the console."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        number=shown_number,
        size=shown_size,
        time=shown_time,
        duration=shown_duration,
        ids=shown_ids,
        exact=_exact,
        picture=Markup,  # SVG of penstock/console/pictures/, which escapes its texts by itself
    )
    made.globals["to"] = address_of
    return made


class KeptTexts:
    """The newest texts by their keys, each with the view that it was made of."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._kept: dict[object, tuple[object, str]] = {}

    def of(self, key: object, view: object, make: Callable[[], str]) -> str:
        """The text of this very view."""
        before = self._kept.pop(key, None)
        found = before if before is not None and before[0] is view else (view, make())
        if len(found[1]) <= TEXT_LETTERS_MAX:
            self._kept[key] = found
            if len(self._kept) > self._kept_max:
                del self._kept[next(iter(self._kept))]
        return found[1]

    def __repr__(self) -> str:
        return f"KeptTexts({len(self._kept)} of {self._kept_max})"


def shown_number(value: int | None) -> str:
    """1234567 as 1,234,567; a dash for what is not known."""
    return "–" if value is None else f"{value:,}"


def shown_size(value: int | None) -> str:
    """Bytes in units of 1,024; a dash for what is not known."""
    if value is None or value < 0:
        return "–"
    size, unit = float(value), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{value} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def shown_time(value_ms: int | None) -> str:
    """ms since 1970 in UTC. One outside the calendar is shown as it is."""
    if value_ms is None or value_ms < 0:
        return "–"
    try:
        return datetime.fromtimestamp(value_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{value_ms} ms since 1970"


def shown_duration(value_ms: int | None) -> str:
    """A length of time."""
    return "–" if value_ms is None or value_ms < 0 else seconds(value_ms)


def shown_ids(ids: Any) -> str:
    """Ids of brokers, as the command line shows them."""
    return ",".join(map(str, ids)) or "–"


def _plain(value: Any) -> Any:
    return value if isinstance(value, Markup) else plain_lines(str(value))


def _exact(value: object) -> Markup:
    return Markup(escape(str(value)))
