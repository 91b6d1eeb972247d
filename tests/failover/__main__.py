"""The campaign of measure.py: python -m tests.failover --how hang --times 20."""

from __future__ import annotations

import sys

from tests.failover.measure import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
