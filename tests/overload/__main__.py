"""The campaign of campaign.py: python -m tests.overload."""

from __future__ import annotations

import sys

from tests.overload.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
