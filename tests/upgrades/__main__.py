"""The campaign of campaign.py: python -m tests.upgrades."""

from __future__ import annotations

import sys

from tests.upgrades.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
