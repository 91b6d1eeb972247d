"""The campaign of support/compaction_campaign.py: python -m tests.compaction [--history GIT_DIR …] --kills 5."""

from __future__ import annotations

import sys

from tests.support.compaction_campaign import CAMPAIGN

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
