"""The files that browsers get: uPlot as it was published, with its licence, and a script of ours that makes no HTML."""

from __future__ import annotations

import hashlib
import re

from penstock.console.app import STATIC


def test_uplot_is_what_its_readme_says_and_its_licence_is_beside_it() -> None:
    sums = dict(
        reversed(line.split())
        for line in (STATIC / "uplot" / "README.md").read_text().splitlines()
        if line[:4] == "    "
    )
    assert set(sums) == {"uPlot.iife.min.js", "uPlot.min.css"}
    for name, digest in sums.items():
        assert hashlib.sha256((STATIC / "uplot" / name).read_bytes()).hexdigest() == digest
    assert "The MIT License" in (STATIC / "uplot" / "LICENSE").read_text()


def test_our_script_waits_by_no_calendar() -> None:
    """A calendar that is set back would keep every open page still for as long."""
    text = (STATIC / "live.js").read_text(encoding="utf-8")
    assert "Date.now" not in text and "performance.now()" in text


def test_our_script_puts_in_texts_as_text() -> None:
    text = (STATIC / "live.js").read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML\s*[+]?=[^=]|insertAdjacentHTML|outerHTML|document\.write|eval\(|new Function", text
    )
