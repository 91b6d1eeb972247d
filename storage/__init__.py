"""The log on disk: segments, recovery, appends, log dirs, cleaning, and the tools for its files."""
