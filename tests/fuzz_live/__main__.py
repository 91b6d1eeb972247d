"""The campaign of campaign.py: python -m tests.fuzz_live --minutes 20 --seed 1 [--only ATTACK …]."""

from __future__ import annotations

import sys

from tests.fuzz_live.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
