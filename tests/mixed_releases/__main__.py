"""The campaign of campaign.py: python -m tests.mixed_releases --before TREE."""

from __future__ import annotations

import sys

from tests.mixed_releases.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
