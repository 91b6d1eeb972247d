"""A tab of a real browser on the console: Playwright's API on the system's chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WITHOUT_GPU = [
    "--disable-gpu",
    "--disable-gpu-rasterization",
    "--disable-gpu-compositing",
    "--disable-software-rasterizer",
]
"""A machine without one would compute it: two fifths of what a browser takes of a processor."""
WAIT_MS = 60_000
LOOKS_MS = 100
"""Between two looks at a page that changes; without it the browser looks at each of 60 pictures a second."""


@contextmanager
def running_chromium() -> Iterator[Any]:
    """The browser; the test is skipped without Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the extra `dev`)")
    with playwright.sync_playwright() as running:
        options = [*WITHOUT_GPU, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        made = running.chromium.launch(executable_path=CHROMIUM, args=options)
        yield made
        made.close()


class Visitor:
    """One tab; `complaints` are errors in it."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url, self.complaints = url, list[str]()
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(f"pageerror: {error}"))
        self.page.on("dialog", self._alarmed)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _alarmed(self, dialog: Any) -> None:
        self.complaints.append(f"a script ran: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str, **fields: object) -> str:
        """The text of a page."""
        answer = self.page.goto(f"{self.url}{path}" + (f"?{urlencode(fields)}" if fields else ""))
        assert answer is not None and answer.status == 200, f"{path}: {answer.status}"
        return str(self.page.inner_text("main"))

    def wait_for_text(self, text: str) -> None:
        """Returns once the page says so, by itself."""
        said = "text => document.querySelector('main').innerText.includes(text)"
        self.page.wait_for_function(said, arg=text, polling=LOOKS_MS)

    def rows(self, number: int = 0) -> list[dict[str, str]]:
        """The cells of the page's table by their column."""
        found: list[dict[str, str]] = (
            self.page.locator("main table:not(.u-legend)")
            .nth(number)
            .evaluate(
                "table => { const names = [...table.tHead.rows[0].cells].map(cell => cell.innerText.toLowerCase());"
                " return [...table.tBodies[0].rows].map(row =>"
                " Object.fromEntries([...row.cells].map((cell, at) => [names[at], cell.innerText]))); }"
            )
        )
        return found
