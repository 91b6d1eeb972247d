"""Remembers of one address whether anybody ever answered there, and why nobody does now. Pure.

A broker tells its clients the address that its `advertised.listeners` gives. Where that address does not exist at the
client (a container's name, another network), the bootstrap address answers and nothing else works. So an error of an
address that was never reached says where the address comes from. Not here: calls (connection.py).
"""

from __future__ import annotations

from penstock.errors import ApiError, NetworkError, RequestTimedOutError


class Reachability:
    """The reachability of one address; `origin` says who told it, and is empty for one that the user gave."""

    __slots__ = ("_is_reached", "_origin", "trouble")

    def __init__(self, origin: str = "") -> None:
        self._origin = origin
        self._is_reached = False
        self.trouble = ""
        """Why the last question got no answer; "" once one has got one."""

    def answered(self) -> None:
        self._is_reached = True
        self.trouble = ""

    def failed(self, error: ApiError) -> None:
        """A question has failed. The error says from now on who told the address, if nobody ever answered there."""
        if not isinstance(error, NetworkError | RequestTimedOutError):
            self.answered()  # the broker's own error
            return
        if self._origin and not self._is_reached and self._origin not in str(error):
            error.args = (f"{error}; {self._origin}", *error.args[1:])
        self.trouble = str(error)

    @property
    def is_foreign(self) -> bool:
        """True if the address was told by a broker, and nobody ever answered there."""
        return bool(self._origin and self.trouble) and not self._is_reached

    def __repr__(self) -> str:
        return f"Reachability(reached={self._is_reached}, trouble={self.trouble!r})"
