"""The pace of copies, and how long the rest takes."""

from __future__ import annotations

from penstock.cli.moves.move_progress import CopyPace

MIB = 1 << 20


def test_the_time_left_is_what_is_left_by_the_pace_of_the_last_looks() -> None:
    pace = CopyPace()
    pace.saw(100 * MIB, 10.0)
    assert pace.text() == "100.0 MiB to copy"
    pace.saw(90 * MIB, 12.0)
    assert pace.bytes_per_second == 5 * MIB
    assert pace.text() == "90.0 MiB to copy, 5.0 MiB/s: about 18 s left"
    pace.saw(1200 * MIB, 13.0)
    assert pace.bytes_per_second is None, "another move has begun"
    pace.saw(1199 * MIB, 14.0)
    assert pace.text().endswith("about 20 min left")


def test_copies_that_stand_still_have_no_time_left() -> None:
    pace = CopyPace()
    pace.saw(5 * MIB, 1.0)
    pace.saw(5 * MIB, 3.0)
    assert pace.text() == "5.0 MiB to copy"


def test_a_copy_that_is_done_and_waits_for_something_else_has_no_time_left() -> None:
    """It waits for the controller, or to be in sync."""
    pace = CopyPace()
    pace.saw(5 * MIB, 1.0)
    pace.saw(0, 3.0)
    assert pace.text() == "0.0 MiB to copy"
