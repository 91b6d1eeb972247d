"""SVG that is safe under a strict policy: escaped, without styles and scripts, with names for a screen reader."""

from __future__ import annotations

from xml.etree import ElementTree

from penstock.console.pictures.svg import SvgPicture, shortened

HOSTILE = '"><script>alert(1)</script><b style="x">\u202e'


def empty() -> SvgPicture:
    return SvgPicture(width=100, height=50, title=HOSTILE, description=HOSTILE, picture_id="p")


def written() -> str:
    picture = empty()
    picture.rectangle(1, 2, 3, 4, "box", tip=HOSTILE)
    picture.rectangle(1, 2, 3, 4, "box")
    picture.circle(1, 2, 3, "mark", tip=HOSTILE)
    picture.circle(1, 2, 3, "mark")
    picture.line(0, 0, 1.5, 1, "rule")
    picture.curve(0, 0, 10, 10, 2, "band", tip=HOSTILE)
    picture.text(1, 1, HOSTILE, width=40)
    picture.link("/topic?name=a&b", 1, 1, HOSTILE)
    return picture.written()


def test_every_text_is_escaped_and_nothing_is_styled_in_place() -> None:
    text = written()
    assert "<script" not in text and "<b " not in text and "\u202e" not in text
    root = ElementTree.fromstring(text)
    assert not [found for found in root.iter() if found.get("style")]
    texts = [found.text for found in root.iter() if found.text]
    assert sum("<script>" in one for one in texts) >= 5, "it is there, as text"
    links = [found for found in root.iter() if found.tag.endswith("}a")]
    assert [link.get("href") for link in links] == ["/topic?name=a&b"]


def test_a_picture_has_a_role_a_title_and_a_description() -> None:
    root = ElementTree.fromstring(empty().written())
    assert root.get("role") == "img"
    assert ElementTree.fromstring(written()).get("role") == "group", "it has links, which an image hides"
    named = (root.get("aria-labelledby") or "").split()
    ids = {found.get("id") for found in root.iter() if found.get("id")}
    assert set(named) == ids and len(named) == 2


def test_a_name_that_is_cut_is_whole_in_its_tip() -> None:
    assert shortened("orders", 70) == "orders"
    assert shortened("a-very-long-name", 35) == "a-ve…"
    picture = SvgPicture(width=9, height=9, title="t", description="d", picture_id="p")
    picture.text(0, 0, "a-very-long-name", width=35)
    assert ">a-ve…<title>a-very-long-name</title></text>" in picture.written()
    assert repr(picture) == "SvgPicture(1 parts)"
