"""The campaign of campaign.py: python -m tests.spark_exactly_once [--runs N] [--only WORD …] [--mutants]."""

from __future__ import annotations

import sys

from tests.spark_exactly_once.campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
