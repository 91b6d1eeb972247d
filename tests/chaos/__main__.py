"""The campaign of campaign.py: python -m tests.chaos --seeds 1..10 --minutes 2 [--only kill] [--secure]."""

from __future__ import annotations

import sys

from tests.chaos.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
