"""Leaders: appends, the high watermark, the ISR, deletions, and requests that wait."""
