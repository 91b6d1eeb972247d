"""The environment variables of this process, which options of security may come from. An edge, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping


def process_variables() -> Mapping[str, str]:
    """The variables as they are now."""
    return os.environ
