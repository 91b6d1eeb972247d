"""The release that runs: the version of the installed distribution, for logs and answers."""

from __future__ import annotations

import importlib.metadata
from functools import cache


@cache
def release() -> str:
    """The version, like 0.1.0; "unknown" for a tree that is not installed."""
    try:
        return importlib.metadata.version("penstock")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
