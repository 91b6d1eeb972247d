"""The campaign of campaign.py: python -m tests.container."""

from __future__ import annotations

import sys

from tests.container.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
