"""The lag of groups, as their coordinators see it: for metrics alone."""
