"""Templates, and the forms in which they show numbers, sizes and times.

Everything is escaped (autoescape), and made plain first (`penstock/plain_text.py`): a name with the controls of
bidirectional text makes no letters trade places. `exact` is for fields of forms, which come back as they were.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from penstock.client.admin.health.health_check import seconds
from penstock.console.page import address_of
from penstock.plain_text import plain_lines

TEMPLATES: Final = Path(__file__).parent / "templates"
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
