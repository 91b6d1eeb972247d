"""The campaign of growing.py: python -m tests.growth."""

from __future__ import annotations

import sys

from tests.growth.growing import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
