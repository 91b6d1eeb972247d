"""penstock/ids.py."""

from __future__ import annotations

import random
import re

from penstock.ids import RandomIds, system_ids


def test_a_seed_decides_the_ids() -> None:
    first, second, other = RandomIds(random.Random(7)), RandomIds(random.Random(7)), RandomIds(random.Random(8))
    drawn = [first.new_id() for _ in range(100)]
    assert drawn == [second.new_id() for _ in range(100)]
    assert other.new_id() not in drawn


def test_an_id_has_kafkas_form_and_never_begins_with_a_dash() -> None:
    ids = RandomIds(random.Random(7))
    drawn = [ids.new_id() for _ in range(2_000)]
    assert len(set(drawn)) == len(drawn)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in drawn)


def test_the_systems_ids_differ_from_process_to_process() -> None:
    assert system_ids().new_id() != system_ids().new_id()
