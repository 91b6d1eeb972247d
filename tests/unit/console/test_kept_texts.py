"""A view's text is made once while the view is the same, and what is kept is bounded."""

from __future__ import annotations

from penstock.console.kept_texts import TEXT_LETTERS_MAX, KeptTexts


def test_the_text_of_a_view_is_made_once_and_that_of_an_equal_one_anew() -> None:
    texts, view, made = KeptTexts(), [1], list[str]()

    def make() -> str:
        made.append("made")
        return f"text {len(made)}"

    assert [texts.of("a", view, make) for _ in range(3)] == ["text 1"] * 3
    assert texts.of("b", view, make) == "text 2"
    assert texts.of("a", [1], make) == "text 3"


def test_few_texts_are_kept_the_newest_ones_and_none_that_is_long() -> None:
    texts, view = KeptTexts(kept_max=2), [1]
    for key in "abac":
        texts.of(key, view, lambda: "text")
    assert repr(texts) == "KeptTexts(2 of 2)"
    assert [texts.of(key, view, lambda: "anew") for key in "acb"] == ["text", "text", "anew"]
    long = "x" * (TEXT_LETTERS_MAX + 1)
    assert texts.of("c", [2], lambda: long) == long
    assert repr(texts) == "KeptTexts(1 of 2)"
