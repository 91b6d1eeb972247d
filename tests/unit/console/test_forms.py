"""All forms together have so much memory, and what one had is free after it."""

from __future__ import annotations

import pytest

from penstock.console.forms import BodiesHeld, TooManyBodiesError


def test_bodies_together_have_a_limit_and_give_back_what_they_had() -> None:
    held = BodiesHeld(10)
    with held.one() as first, held.one() as second:
        first(6)
        second(4)
        with pytest.raises(TooManyBodiesError, match="again in a moment"):
            second(1)
    with held.one() as third:
        third(10)
    assert repr(held) == "BodiesHeld(0 of 10 bytes)"
