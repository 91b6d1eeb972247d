"""Lines for browsers without scripts: a common scale, gaps, and peaks that stay."""

from __future__ import annotations

from penstock.console.pictures.lines_picture import LINES_MAX, POINTS_MAX, lines_svg, thinned


def test_a_gap_in_the_numbers_is_a_gap_in_the_line() -> None:
    text = lines_svg("Lag", {"g": [1.0, 2.0, None, 4.0, 4.0]}, unit="records", picture_id="lag")
    assert text.count('class="line line-0"') == 4
    assert "g: 4 records now" in text
    assert ">4 records</text>" in text


def test_nothing_known_is_said() -> None:
    text = lines_svg("Lag", {"g": [None, None]}, unit="", picture_id="lag")
    assert "g: not known now" in text and 'class="line' not in text
    assert "Nothing is known yet." in lines_svg("Lag", {}, unit="", picture_id="lag")


def test_peaks_stay_when_numbers_are_thinned() -> None:
    numbers: list[float | None] = [0.0] * 720
    numbers[333], numbers[400:408] = 99.0, [None] * 8
    found = thinned(numbers)
    assert len(found) == POINTS_MAX
    assert max(number for number in found if number is not None) == 99
    assert None in found
    assert thinned([]) == []


def test_the_picture_is_bounded() -> None:
    many = {f"line {n}": [float(n)] * 720 for n in range(50)}
    text = lines_svg("Many", many, unit="", picture_id="many")
    assert text.count("<line ") <= LINES_MAX * POINTS_MAX + 1
    assert len(text) < 200_000
