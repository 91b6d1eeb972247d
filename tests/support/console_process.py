"""`penstock console` as a process, and a browser's part of it: cookies, forms and their tokens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

PROGRAM = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
TIMEOUT_S = 30.0


@contextmanager
def running_console(bootstrap: str, *options: str, tls_ca: str | Path | None = None) -> Iterator[str]:
    """The address of a console for that cluster; it has ended well when the context is left."""
    with started_console(bootstrap, *options, tls_ca=tls_ca) as (_, url):
        yield url


@contextmanager
def started_console(
    bootstrap: str, *options: str, tls_ca: str | Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The same with its process."""
    command = [sys.executable, "-c", PROGRAM, "console", "--bootstrap", bootstrap, "--port", "0", *options]
    command += [] if tls_ca is None else ["--tls-ca", str(tls_ca)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class ConsoleBrowser:
    """A browser by hand: it keeps cookies, and sends the token of the page that has the form."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=TIMEOUT_S)

    def log_in(self, user: str, password: str) -> httpx.Response:
        """Logs in by the form."""
        return self.send("/login", {"user": user, "password": password})

    def page(self, path: str, status: int = 200) -> str:
        """The text of a page."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def view(self, path: str, status: int = 200) -> Any:
        """The JSON twin of a page."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def send(self, path: str, fields: dict[str, str], page: str = "") -> httpx.Response:
        """Sends a form, with the token that its page has."""
        found = re.search(r'name="token" value="(\w+)"', self.client.get(page or path).text)
        token = found[1] if found is not None else ""
        return self.client.post(path, data={"token": token, **fields}, headers={"origin": self.url})

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> ConsoleBrowser:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
