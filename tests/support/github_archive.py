"""Hours in the format of the GH Archive, made from a seed, and a local server that gives them; none is real."""

from __future__ import annotations

import gzip
import json
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = ("PushEvent", "WatchEvent", "IssuesEvent", "ForkEvent")


def archive_events(seed: int, hour: datetime, count: int) -> list[bytes]:
    """Lines in order of time, as the Events API writes an event."""
    chance = random.Random(f"{seed} {hour.isoformat()}")
    seconds = sorted(chance.randrange(3600) for _ in range(count))
    return [_event(chance, hour + timedelta(seconds=second), number) for number, second in enumerate(seconds)]


def _event(chance: random.Random, when: datetime, number: int) -> bytes:
    user, repo = chance.randrange(50), chance.randrange(20)
    event = {
        "id": f"{when:%Y%m%d%H}{number:06d}",
        "type": chance.choice(KINDS),
        "actor": {"id": user, "login": f"user-{user}", "url": f"https://api.github.com/users/user-{user}"},
        "repo": {"id": repo, "name": f"owner-{repo}/name", "url": f"https://api.github.com/repos/owner-{repo}/name"},
        "payload": {"action": "started", "text": "ä" * chance.randrange(100)},
        "public": True,
        "created_at": f"{when:%Y-%m-%dT%H:%M:%SZ}",
    }
    return json.dumps(event, ensure_ascii=False).encode()


def zipped(lines: list[bytes]) -> bytes:
    return gzip.compress(b"".join(line + b"\n" for line in lines))


@contextmanager
def archive_server(files: Mapping[str, bytes]) -> Iterator[str]:
    """The address of a server that has these files, and answers 404 for any other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path.removeprefix("/"))
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
