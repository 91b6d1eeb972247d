"""Counts how callers proved who they are, by listener. Both protocols count here; the metrics read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, measured

_TOTAL = ("penstock_authentications", "Authentications at a listener for clients, by the listener and the outcome.")


@measured
class AuthenticationStatistics:
    """The authentications at one listener, since the start."""

    succeeded: int = counter(*_TOTAL, outcome="success")
    failed: int = counter(*_TOTAL, outcome="failure")
    throttled: int = counter(*_TOTAL, outcome="throttled")
    renewed: int = counter(
        "penstock_reauthentications", "Sessions at a listener for clients that were renewed in time (KIP-368)."
    )


@dataclass(slots=True)
class _Counts:
    succeeded: int = 0
    failed: int = 0
    throttled: int = 0
    renewed: int = 0


class AuthenticationCounts:
    """The counts of one node."""

    def __init__(self, listeners: Iterable[str] = ()) -> None:
        """`listeners` are shown from the start on."""
        self._of = defaultdict(_Counts, {name: _Counts() for name in listeners})

    def succeeded(self, listener: str) -> None:
        self._of[listener].succeeded += 1

    def failed(self, listener: str) -> None:
        self._of[listener].failed += 1

    def throttled(self, listener: str) -> None:
        """Refused unheard: too many attempts were under way."""
        self._of[listener].throttled += 1

    def renewed(self, listener: str) -> None:
        """A session was made longer; it counts as a success, too."""
        self._of[listener].renewed += 1

    def statistics(self) -> Mapping[str, AuthenticationStatistics]:
        """The counts by listener."""
        return {
            listener: AuthenticationStatistics(of.succeeded, of.failed, of.throttled, of.renewed)
            for listener, of in self._of.items()
        }

    def __repr__(self) -> str:
        return f"AuthenticationCounts({dict(self._of)!r})"
