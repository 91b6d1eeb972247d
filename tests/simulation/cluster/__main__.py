"""`python -m tests.simulation.cluster`; see run.py."""

from __future__ import annotations

import sys

from tests.simulation.cluster.run import main

if __name__ == "__main__":
    sys.exit(main())
