"""The version of this code, and the one place where it stands.

`penstock.__version__` is the same. The build reads it here without an import of anything (hatch.version in
pyproject.toml), and code that runs tells its own, whichever distribution is installed beside it. docs/upgrading.md has
the scheme.
"""

from __future__ import annotations

__version__ = "0.3.0.dev0"
