"""How many streams each client has open, by the `client_id` that its requests carry: which application is connected.

Clients choose their names, and nobody checks them: so the names are cut, and no more than a limit are told apart at a
time. A stream is counted from its first request on, under the name in that one.
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
        """A stream has said its name; under which one it is counted, for `left`."""
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
