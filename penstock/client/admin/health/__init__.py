"""Judges the health of a cluster by what every node says of itself."""
