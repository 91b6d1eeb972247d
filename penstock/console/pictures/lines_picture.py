"""Draws series as lines, for browsers without scripts: the same numbers as the charts and their JSON twin.

A gap in the numbers is a gap in its line. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.console.pictures.svg import SvgPicture, shortened

WIDTH = 640
HEIGHT = 150
LEFT = 70
POINTS_MAX = 240
LINES_MAX = 8

Series = Sequence[float | None]


def lines_svg(title: str, lines: Mapping[str, Series], *, unit: str, picture_id: str) -> str:
    """The picture of up to LINES_MAX lines with a common scale."""
    shown = dict(list(lines.items())[:LINES_MAX])
    thin = {name: thinned(numbers) for name, numbers in shown.items()}
    top = max((number for numbers in thin.values() for number in numbers if number is not None), default=0.0)
    last = {name: next((n for n in reversed(numbers) if n is not None), None) for name, numbers in shown.items()}
    words = "; ".join(f"{name}: {_number(number, unit)} now" for name, number in last.items())
    picture = SvgPicture(
        width=WIDTH, height=HEIGHT, title=title, description=words or "Nothing is known yet.", picture_id=picture_id
    )
    bottom = HEIGHT - 24
    picture.line(LEFT, bottom, WIDTH - 8, bottom, "rule")
    picture.text(LEFT - 6, bottom, "0", "label small", anchor="end")
    picture.text(LEFT - 6, 16, _number(top, unit), "label small", anchor="end")
    for index, (name, numbers) in enumerate(thin.items()):
        points = max(len(numbers) - 1, 1)
        previous: tuple[float, float] | None = None
        for at, number in enumerate(numbers):
            if number is None:
                previous = None
                continue
            here = LEFT + (WIDTH - 8 - LEFT) * at / points, bottom - (bottom - 12) * (number / top if top else 0)
            begin = previous or (here[0] - 1, here[1])
            picture.line(*begin, *here, f"line line-{index}")
            previous = here
        picture.text(LEFT + index * 70, HEIGHT - 6, shortened(name, 66), f"label small line-{index}")
    return picture.written()


def thinned(numbers: Series) -> list[float | None]:
    """POINTS_MAX numbers or fewer: of several the largest, so that no peak is lost."""
    size = -(-len(numbers) // POINTS_MAX) or 1
    parts = [[n for n in numbers[at : at + size] if n is not None] for at in range(0, len(numbers), size)]
    return [max(part) if part else None for part in parts]


def _number(number: float | None, unit: str) -> str:
    if number is None:
        return "not known"
    shown = f"{number:,.0f}" if abs(number) >= 10 or number == 0 else f"{number:.2g}"
    return f"{shown} {unit}".strip()
