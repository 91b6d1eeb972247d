"""The campaign of campaign.py: python -m tests.exactly_once --seconds 120 --records 200000."""

from __future__ import annotations

import sys

from tests.exactly_once.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
