"""The campaign of campaign.py: python -m tests.groups_under_faults --minutes 10."""

from __future__ import annotations

import sys

from tests.groups_under_faults.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
