"""The campaign of campaign.py: python -m tests.pipelines_under_faults --seed 7."""

from __future__ import annotations

import sys

from tests.pipelines_under_faults.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
