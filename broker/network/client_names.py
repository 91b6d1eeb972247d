"""Counts the open streams of each client, by the `client_id` of its requests, to show which applications connect.

Clients choose their names and no one checks them, so a long name is cut, and only a limited number of names have a
count of their own. A stream is counted from its first request on, under the name in that request.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES_MAX = 100
"""Names with a count of their own: each is a series in a monitoring system."""
NAME_CHARS_MAX = 64
OTHERS = "(others)"
UNNAMED = "(none)"


class ClientNames:
    """Of the clients' listener. Changed on the event loop."""

    def __init__(self) -> None:
        self._streams: dict[str, int] = {}

    def joined(self, client_id: str) -> str:
        """A stream has given its name. The name under which it is counted, for `left`."""
        name = client_id[:NAME_CHARS_MAX] or UNNAMED
        if name not in self._streams and len(self._streams) >= NAMES_MAX:
            name = OTHERS
        self._streams[name] = self._streams.get(name, 0) + 1
        return name

    def left(self, name: str) -> None:
        """The stream has ended."""
        self._streams[name] -= 1
        if not self._streams[name]:
            del self._streams[name]

    def statistics(self) -> Mapping[str, int]:
        """Open streams by name; may be called in any thread."""
        return dict(self._streams)

    def __repr__(self) -> str:
        return f"ClientNames({len(self._streams)} names, {sum(self._streams.values())} streams)"
